// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// ReplicaSize returns the number of pods with which a pod's replica was made. nodeCount may have changed since then. A replica of the
// former size counts as complete until an update replaces it.
func ReplicaSize(sg *trellisv1alpha1.ScalingGroup, pod metav1.Object) int {
	if size, ok := labelNumber(pod, LabelReplicaSize); ok && size > 0 {
		return int(size)
	}
	return int(PodsPerReplica(sg))
}

// GateClosed reports whether the pod still has Trellis' scheduling gate.
func GateClosed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return gate.Name == PlacementGate })
}

// PodReady reports whether the pod has the condition Ready.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ForeignGates lists the scheduling gates of a pod that other controllers remove, sorted by name.
func ForeignGates(pod *corev1.Pod) []string {
	var names []string
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name != PlacementGate {
			names = append(names, gate.Name)
		}
	}
	slices.Sort(names)
	return names
}

// MinAvailable returns the number of the scaling group's replicas in the base gang, which is at least 1.
func MinAvailable(sg *trellisv1alpha1.ScalingGroup) int32 {
	return max(1, ptr.Deref(sg.Spec.MinAvailable, 1))
}

// Outdated reports whether a replica's pod, or the object that makes the replica's pods, has an older revision or was made before the last
// requested restart. A gated pod is also outdated if it was prepared for other topology levels.
func Outdated(sg *trellisv1alpha1.ScalingGroup, object metav1.Object) bool {
	if object.GetLabels()[LabelRevision] != LabelValue(sg.Spec.Revision) {
		return true
	}
	if pod, is := object.(*corev1.Pod); is && preparedForOther(pod, sg) {
		return true
	}
	return sg.Spec.Restart != nil && object.GetAnnotations()[AnnotationRestart] != sg.Spec.Restart.ID
}

// markReplica records on the pod the size of its replica, and the restart for which the pod was made.
func markReplica(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	pod.Labels[LabelReplicaSize] = strconv.Itoa(int(PodsPerReplica(sg)))
	if sg.Spec.Restart == nil {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationRestart] = sg.Spec.Restart.ID
}
