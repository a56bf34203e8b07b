// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// budgetSuffix is the suffix of the name of a component's disruption budget, so that the name does not clash with a budget of the user.
const budgetSuffix = "-replicas"

// BudgetName is the name of the disruption budget of a scaling group.
func BudgetName(group string) string { return group + budgetSuffix }

// DisruptionBudget returns the PodDisruptionBudget that keeps podsThatStay pods of a scaling group running. The caller sets owner
// references.
//
// The budget sets minAvailable, not maxUnavailable. For maxUnavailable, Kubernetes asks the owners of the pods for the expected number of
// pods, and LeaderWorkerSet's StatefulSets do not count a replica that is gone.
func DisruptionBudget(sg *trellisv1alpha1.ScalingGroup, podsThatStay int32) *policyv1.PodDisruptionBudget {
	of := groupSelector(sg.Spec.Graph, sg.Name)
	meta := metav1.ObjectMeta{Name: BudgetName(sg.Name), Namespace: sg.Namespace, Labels: groupSelector(sg.Spec.Graph, sg.Name)}
	meta.Labels[LabelManagedBy] = ManagedBy
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(podsThatStay)), Selector: &metav1.LabelSelector{MatchLabels: of},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

// OwnBudget reports whether Trellis has created a budget: either the budget's controller is a scaling group, or the budget has no
// controller but has the label and the name of a Trellis budget.
func OwnBudget(budget *policyv1.PodDisruptionBudget) bool {
	if owner := metav1.GetControllerOfNoCopy(budget); owner != nil {
		return owner.Kind == "ScalingGroup" && owner.APIVersion == trellisv1alpha1.GroupVersion.String()
	}
	return budget.Labels[LabelManagedBy] == ManagedBy && budget.Name == BudgetName(budget.Labels[LabelScalingGroup])
}

// Selects reports whether a budget selects any of the pods. A budget with an unreadable or missing selector selects no pods.
func Selects(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) })
}
