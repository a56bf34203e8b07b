// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Prepare sets the same PodGroup name in all pods of one generation of a replica. fresh are the new pods, and made are the replica's
// existing pods. generation is a text that is unique among the replica's generations.
func Prepare(sg *trellisv1alpha1.ScalingGroup, ordinal int32, fresh, made []*corev1.Pod, generation string) {
	name := ""
	for _, pod := range made {
		name = GroupOf(pod)
	}
	if name == "" {
		name = groupName(sg, ordinal, generation)
	}
	for _, pod := range fresh {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, render.AnnotationPodProvider, specs.PodGroup.Name)
	}
}

// Kept reports whether the pods of one replica have the fields that Prepare sets, and belong to the same generation.
func Kept(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return GroupOf(pod) == "" || GroupOf(pod) != GroupOf(pods[0]) || pod.Annotations[render.AnnotationPodProvider] != specs.PodGroup.Name
	})
}
