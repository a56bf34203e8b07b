// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
)

// transferOf counts the prefill and decode replicas that have an existing or planned place.
func transferOf(g *Plan) *gang.Transfer {
	groups, policy := map[string]*trellisv1alpha1.ScalingGroup{}, (*trellisv1alpha1.ResolvedTopology)(nil)
	for _, sg := range g.Groups {
		if gang.RoleOf(sg) != placement.NoRole {
			groups[sg.Spec.Component], policy = sg, sg.Spec.Topology
		}
	}
	var list []gang.Transferring
	pods := podsByReplica(g.Exist)
	for i := range g.Replicas {
		one := &g.Replicas[i]
		sg := groups[one.Component]
		if sg == nil || one.Reason != nil {
			continue
		}
		labels := sg.Spec.Roles[0].Template.Labels
		if existing := pods[replicaKey{sg.Name, one.Ordinal}]; len(existing) > 0 {
			labels = existing[0].Labels
		}
		list = append(list, gang.Transferring{Role: gang.RoleOf(sg), Generation: labels[render.LabelWorkerHash], Domain: one.Domain})
	}
	return gang.NewTransfer(policy, list)
}
