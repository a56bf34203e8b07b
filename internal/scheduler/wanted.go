// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// admittedShapes are the shapes that pods of the group's revision have once they are through admission, which adds tolerations, defaults
// of a LimitRange, the overhead of a RuntimeClass and whatever webhooks of the cluster do. By role.
func admittedShapes(sg *trellisv1alpha1.ScalingGroup, states []replicaState) map[string]*topology.Shape {
	shapes := map[string]*topology.Shape{}
	for _, state := range states {
		for _, pods := range [][]*corev1.Pod{state.closed, state.open} {
			for _, pod := range pods {
				if role := pod.Labels[graph.LabelRole]; shapes[role] == nil && !graph.Outdated(sg, pod) {
					shapes[role] = topology.ShapeOf(pod)
				}
			}
		}
	}
	return shapes
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
		shape := g.admitted[pod.Labels[graph.LabelRole]]
		if shape == nil {
			shape = topology.ShapeOf(pod)
		}
		replica.Pods = append(replica.Pods, placement.Pod{ID: "wanted/" + pod.Namespace + "/" + pod.Name, Name: pod.Name, Shape: shape})
	}
}
