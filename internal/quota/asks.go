// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// asks is what the pods of a deployment ask for as they are made now.
type asks struct {
	base  Base
	roles map[*trellisv1alpha1.ScalingGroup][]role
}

func (o *Observation) asks() asks {
	a := asks{roles: map[*trellisv1alpha1.ScalingGroup][]role{}}
	for _, sg := range o.Groups {
		a.roles[sg] = rolesOf(sg)
	}
	roles := func(sg *trellisv1alpha1.ScalingGroup) []role { return a.roles[sg] }
	a.base = baseOf(o.Groups, roles, func(sg *trellisv1alpha1.ScalingGroup) int32 { return min(inBase(sg), o.joining(sg, a.roles[sg])) })
	return a
}

// joining is how many replicas of a group have, or get, no Workload of their own. For the others the base would have quota that nothing
// uses.
func (o *Observation) joining(sg *trellisv1alpha1.ScalingGroup, roles []role) (n int32) {
	pods, of := membersOf(sg, o.Pods), map[int32]string{}
	for _, pod := range pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok && pod.DeletionTimestamp == nil {
			of[ordinal] = WorkloadOf(pod)
		}
	}
	base := baseName(o.Groups)
	for _, ordinal := range gang.Ordinals(sg, pods) {
		name, exists := of[int32(ordinal)]
		if own := named(o.Workloads, ownName(sg, int32(ordinal), roles)); !exists && own != nil && own.usable() {
			name = own.Name
		}
		if name == "" || name == base {
			n++
		}
	}
	return n
}
