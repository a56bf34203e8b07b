// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// asks are the quota requests for a deployment's pods, as Trellis would create them now.
type asks struct {
	base  Base
	roles map[*trellisv1alpha1.ScalingGroup][]role
	// workloads are the deployment's existing Workloads, by name.
	workloads map[string]*Workload
}

func (o *Observation) asks() asks {
	a := asks{roles: map[*trellisv1alpha1.ScalingGroup][]role{}, workloads: map[string]*Workload{}}
	for _, w := range o.Workloads {
		a.workloads[w.Name] = w
	}
	for _, sg := range o.Groups {
		a.roles[sg] = rolesOf(sg)
	}
	roles := func(sg *trellisv1alpha1.ScalingGroup) []role { return a.roles[sg] }
	a.base = baseOf(o.Groups, roles, func(sg *trellisv1alpha1.ScalingGroup) int32 { return o.joining(sg, &a) })
	return a
}

// joining returns the number of a scaling group's replicas for which a new base needs quota: up to minAvailable of the replicas without
// their own Workload, the lowest ordinals first. Quota for other replicas would remain unused.
func (o *Observation) joining(sg *trellisv1alpha1.ScalingGroup, a *asks) (n int32) {
	pods, of := membersOf(sg, o.Pods), map[int32]string{}
	for _, pod := range pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok && pod.DeletionTimestamp == nil {
			of[ordinal] = WorkloadOf(pod)
		}
	}
	base, most := baseName(o.Groups), inBase(sg)
	for _, ordinal := range gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Component)) {
		if n == most {
			break
		}
		name, exists := of[int32(ordinal)]
		if !exists {
			if own := a.workloads[ownName(sg, int32(ordinal), a.roles[sg])]; own != nil && own.usable() {
				name = own.Name
			}
		}
		if name == "" || name == base {
			n++
		}
	}
	return n
}
