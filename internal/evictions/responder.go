// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Responder is the name of the operator in spec.evictionResponders of pods.
const Responder = "trellis.dev/operator"

// responderPriority is the priority that KEP-4563 gives to the controller that manages a pod.
const responderPriority = 10000

// Register names the operator as a responder of a new pod. It does not change pods of a PodGroup, which Evictions do not support.
func Register(pod *corev1.Pod) {
	named := func(r corev1.EvictionResponder) bool { return r.Name == Responder }
	if pod.Spec.SchedulingGroup != nil || slices.ContainsFunc(pod.Spec.EvictionResponders, named) {
		return
	}
	pod.Spec.EvictionResponders = append(slices.Clone(pod.Spec.EvictionResponders),
		corev1.EvictionResponder{Name: Responder, Priority: ptr.To[int32](responderPriority)})
}
