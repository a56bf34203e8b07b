// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// GroupOf returns the scaling group of a pod: the pod's owner or, if a LeaderWorkerSet's StatefulSet owns the pod, the group that the pod's
// labels name.
func GroupOf(pod *corev1.Pod) (name string, uid types.UID, ok bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil:
		return "", "", false
	case owner.Kind == "ScalingGroup":
		return owner.Name, owner.UID, true
	case owner.Kind != "StatefulSet":
		return "", "", false
	}
	name, uid = pod.Labels[LabelScalingGroup], types.UID(pod.Labels[LabelGroupUID])
	return name, uid, name != "" && uid != ""
}

// Member reports whether a pod belongs to a scaling group, by the group's UID.
func Member(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) bool {
	_, uid, ok := GroupOf(pod)
	return ok && uid == sg.UID
}
