// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/render"
)

// probeName is the name of objects in dry-run requests.
const probeName = "trellis-probe"

// ProbeGroup returns a PodGroup with all fields that the provider requires.
func ProbeGroup(namespace string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName},
		Spec: schedulingv1beta1.PodGroupSpec{
			ParentCompositePodGroupName: ptr.To(probeName), SchedulingPolicy: gangOf(1), SchedulingConstraints: constraint(corev1.LabelHostname),
			WorkloadRef: &schedulingv1beta1.WorkloadReference{WorkloadName: probeName, TemplateName: probeName},
		},
	}
}

// ProbePod returns a pod that names a PodGroup.
func ProbePod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: probeName},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: render.PlacementGate}},
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: ptr.To(probeName)},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{
				Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "none", Image: "none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
}

// Dropped returns a message about the field of a PodGroup that the API server has dropped; "" for none.
func Dropped(want, made *schedulingv1beta1.PodGroup) string {
	switch {
	case want.Spec.SchedulingConstraints != nil && made.Spec.SchedulingConstraints == nil:
		return "the API server drops spec.schedulingConstraints of PodGroups"
	case want.Spec.ParentCompositePodGroupName != nil && made.Spec.ParentCompositePodGroupName == nil:
		return "the API server drops spec.parentCompositePodGroupName of PodGroups"
	}
	return ""
}
