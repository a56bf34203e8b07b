// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// A deployment joins the queue that Kueue has put pods of it into, and no other.
func TestDefaultQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		group func(sg *trellisv1alpha1.ScalingGroup)
		pod   func(pod *corev1.Pod)
		want  string
	}{
		"Kueue has put a pod into a queue": {want: "default"},
		"it has no queue":                  {pod: func(pod *corev1.Pod) { delete(pod.Labels, labelQueue) }},
		"Kueue ignores it":                 {pod: func(pod *corev1.Pod) { delete(pod.Labels, labelManaged) }},
		"it runs":                          {pod: func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil }},
		"it ends":                          {pod: func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }},
		"Trellis has put it there": {pod: func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{annotationParent: parent}
			pod.Labels[labelGroup] = "w"
		}},
		"it is of another group": {pod: func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "another" }},
		"its component names the queue": {group: func(sg *trellisv1alpha1.ScalingGroup) {
			sg.Spec.Roles[0].Template.Labels = map[string]string{labelQueue: "default"}
		}},
		"another makes the pods": {group: func(sg *trellisv1alpha1.ScalingGroup) { sg.Spec.Provider = specs.Grove.Name }},
	} {
		sg := group("work", 1, 2, "8")
		pod := gangtest.Pod(sg, 0, 0)
		pod.Labels[labelQueue], pod.Labels[labelManaged] = "default", "true"
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: Gate}}
		if tc.group != nil {
			tc.group(sg)
		}
		if tc.pod != nil {
			tc.pod(pod)
		}
		if got := DefaultQueue([]*trellisv1alpha1.ScalingGroup{sg}, []*corev1.Pod{gangtest.Pod(sg, 0, 1), pod}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
