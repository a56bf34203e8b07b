// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// BaseGang returns the name of the base gang of a graph's pods, where that has several replicas; "" otherwise. Two of them can only exist
// while one is leaving.
func BaseGang(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if pod.Annotations[render.AnnotationGangReplicas] != "" && !Leaving(pod) {
			return pod.Annotations[render.AnnotationGang]
		}
	}
	return ""
}

// RunsWithout reports whether a graph runs without some gangs: each component that Trellis places has as many bound replicas of other gangs
// as it does not run without.
func RunsWithout(o Observation, isOf func(gang string) bool) bool {
	byGroup := podsByGroup(o.Pods)
	return !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		if !render.Gated(sg) {
			return false
		}
		bound := 0
		for _, pods := range podsByOrdinal(byGroup[string(sg.UID)]) {
			if len(pods) == render.ReplicaSize(sg, pods[0]) && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
				return Leaving(pod) || pod.Spec.NodeName == "" || isOf(pod.Annotations[render.AnnotationGang])
			}) {
				bound++
			}
		}
		return bound < min(max(int(render.MinAvailable(sg)), 1), int(sg.Spec.Replicas))
	})
}
