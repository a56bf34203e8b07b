// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// shapeLike returns the shape that a missing pod will have after admission. Admission adds tolerations, defaults of a LimitRange, the
// overhead of a RuntimeClass and the changes of the cluster's webhooks. Therefore, shapeLike uses a waiting pod of the same role and
// revision. It does not use a released pod, which has pins of its own. Without a waiting pod, it uses the pod that template builds, which
// lacks the changes of webhooks.
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

// addWanted adds the pods of a replica that do not exist yet, at most as many as the plan may still include. They get the shape of the
// existing pods of their role, because the planner keeps replicas together only if their pods have the same shapes. addWanted builds at
// most one pod of each role, because it needs only the names of the other pods.
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
