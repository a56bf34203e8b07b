// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// shapeLike is the shape that a pod which is still to be made will have once it is through admission, which adds tolerations, defaults of a
// LimitRange, the overhead of a RuntimeClass and whatever webhooks of the cluster do: the shape of one of its role and revision that waits
// already. (One that was let go has pins of its own.)
func (g *groupView) shapeLike(template *corev1.Pod) *topology.Shape {
	role := template.Labels[graph.LabelRole]
	if shape := g.wanted[role]; shape != nil {
		return shape
	}
	like := template
	for _, state := range g.states {
		for _, pod := range state.closed {
			if like == template && pod.Labels[graph.LabelRole] == role && !graph.Outdated(g.sg, pod) {
				like = pod
			}
		}
	}
	g.wanted[role] = topology.ShapeOf(like)
	return g.wanted[role]
}

// addWanted lets pods that are still to be made count in looking ahead. They will be alike to those of their role that are made already:
// taken for others, the planner would not keep their replicas together.
func (g *groupView) addWanted(replica *placement.Replica, state replicaState) {
	made := map[int32]bool{}
	for _, pod := range state.closed {
		_, index, _ := graph.ReplicaOf(pod)
		made[index] = true
	}
	for index := range graph.PodsPerReplica(g.sg) {
		if made[index] {
			continue
		}
		pod := graph.BuildPod(g.sg, int32(state.ordinal), index)
		replica.Pods = append(replica.Pods, placement.Pod{ID: "wanted/" + pod.Namespace + "/" + pod.Name, Name: pod.Name, Shape: g.shapeLike(pod)})
	}
}
