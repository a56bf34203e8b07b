// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// shapeLike is the shape that a pod of a role which is still to be made will have once it is through admission, which adds tolerations,
// defaults of a LimitRange, the overhead of a RuntimeClass and whatever webhooks of the cluster do: the shape of one of its role and
// revision that waits already. (A released one has pins of its own.) template makes the pod itself, for when there is none: then webhooks
// are not known.
func (g *groupView) shapeLike(role string, template func() *corev1.Pod) *topology.Shape {
	if shape := g.wanted[role]; shape != nil {
		return shape
	}
	g.wanted[role] = topology.ShapeOf(g.waitingLike(role, template))
	return g.wanted[role]
}

func (g *groupView) waitingLike(role string, template func() *corev1.Pod) *corev1.Pod {
	for _, state := range g.states {
		for _, pod := range state.closed {
			if pod.Labels[render.LabelRole] == role && !render.Outdated(g.sg, pod) {
				return pod
			}
		}
	}
	stored, _ := g.admission.Admit(template())
	return stored
}

// addWanted lets pods that are still to be made count in looking ahead, as far as that reaches. They will be like those of their role
// that exist already: if they differed, the planner would not keep their replicas together. One pod of a role is built at most; of the
// others only the names are needed.
func (g *groupView) addWanted(replica *placement.Replica, state replicaState) {
	if render.Oversized(g.sg) {
		return
	}
	made := map[int32]bool{}
	for _, pod := range state.closed {
		_, index, _ := render.ReplicaOf(pod)
		made[index] = true
	}
	for index := range render.PodsPerReplica(g.sg) {
		if made[index] {
			continue
		}
		if g.ahead == 0 {
			return
		}
		g.ahead--
		ordinal, name := int32(state.ordinal), render.PodName(g.sg, int32(state.ordinal), index)
		shape := g.shapeLike(render.RoleOf(g.sg, index).Name, func() *corev1.Pod { return render.BuildPod(g.sg, ordinal, index) })
		replica.Pods = append(replica.Pods, placement.Pod{ID: "wanted/" + g.sg.Namespace + "/" + name, Name: name, Shape: shape})
	}
}
