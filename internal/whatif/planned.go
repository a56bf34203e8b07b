// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// PlannedPods returns the unbound pods for which the plan has nodes, as if they were bound and ready.
func (g *Plan) PlannedPods() []*corev1.Pod {
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range g.Groups {
		groups[sg.Spec.Component] = sg
	}
	existing := map[string]*corev1.Pod{}
	for _, pod := range g.Exist {
		existing[pod.Name] = pod
	}
	var out []*corev1.Pod
	for _, replica := range g.Replicas {
		nodes := map[string]string{}
		for _, pod := range replica.Pods {
			nodes[pod.Name] = pod.Node
		}
		sg := groups[replica.Component]
		if render.Oversized(sg) {
			continue
		}
		build := render.NewBuilder(sg)
		for index := range render.PodsPerReplica(sg) {
			pod := build.Pod(int32(replica.Ordinal), index)
			if old := existing[pod.Name]; old != nil {
				pod = old.DeepCopy()
			} else {
				pod = g.admitted(pod)
			}
			if pod.Spec.NodeName == "" && nodes[pod.Name] != "" {
				pod.Spec.NodeName = nodes[pod.Name]
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				out = append(out, pod)
			}
		}
	}
	return out
}
