// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// What exists of a base gang that was created in place tells what is missing of it only where an entire replica of it exists: others are
// recreated, and the gang is planned again.
func TestNothingIsMissingWithoutAnEntireReplica(t *testing.T) {
	for name, tc := range map[string]struct {
		pods int32
		want bool
	}{"entire": {2, true}, "in part": {1, false}} {
		front, work := newGroup("front", 1, 1, frozen("zone", "")), newGroup("work", 1, 2, frozen("zone", ""))
		var pods []*corev1.Pod
		for index := range tc.pods {
			pod := newPod(work, 0, index, "a", "1")
			pod.Annotations = map[string]string{
				render.AnnotationGang: "g", render.AnnotationGangReplicas: Base{Replicas: []Key{{Component: "work"}, {Component: "front"}}}.Identity(),
				render.AnnotationCreation: "former-1",
			}
			pods = append(pods, pod)
		}
		groups := []*trellisv1alpha1.ScalingGroup{front, work}
		r := NewRequest(Observation{DGD: &nvidiav1beta1.DynamoGraphDeployment{}, Groups: groups, Pods: pods, Profile: profile})
		if _, is := r.rests[Key{Component: "front", Ordinal: 0}]; is != tc.want {
			t.Errorf("%s: front is missing: %v", name, is)
		}
	}
}
