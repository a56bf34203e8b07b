// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestDisruptionBudget: the budget of a component selects all its pods and no others, and other budgets are compared with them as Kubernetes
// does.
func TestDisruptionBudget(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"Decode": 4}))
	pod := BuildPod(sg, 0, 1)
	pod.Labels["team"] = "a"
	other := pod.DeepCopy()
	other.Labels[LabelScalingGroup] = "llm-prefill"
	budget := DisruptionBudget(sg, 6)
	if budget.Name != "llm-decode-replicas" || budget.Spec.MinAvailable.IntValue() != 6 || budget.Spec.MaxUnavailable != nil {
		t.Errorf("%s: %+v", budget.Name, budget.Spec)
	}
	match := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		pod      *corev1.Pod
		want     bool
	}{
		"that of the component":  {budget.Spec.Selector, pod, true},
		"a pod of another one":   {budget.Spec.Selector, other, false},
		"all pods":               {&metav1.LabelSelector{}, pod, true},
		"none":                   {nil, pod, false},
		"a label of a user":      {match("team", "a"), pod, true},
		"another value":          {match("team", "b"), pod, false},
		"the graph":              {match(LabelGraph, "llm"), pod, true},
		"an expression":          {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}}, pod, true},
		"one that is not":        {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}}}, pod, false},
		"one that no one parses": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Like"}}}, pod, false},
	} {
		if got := Selects(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: c.selector}}, []*corev1.Pod{c.pod}); got != c.want {
			t.Errorf("%s: selects the pod: %v", name, got)
		}
	}
}

// TestOwnBudgets tells the budgets that Trellis has made from those of others.
func TestOwnBudgets(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"Decode": 4}))
	owner := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "trellis.dev/v1alpha1", Kind: kind, Name: sg.Name, UID: "u", Controller: ptr.To(true)}}
	}
	for name, c := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   bool
	}{
		"as it is made":          {func(b *policyv1.PodDisruptionBudget) { b.OwnerReferences = owner("ScalingGroup") }, true},
		"without its owner":      {func(*policyv1.PodDisruptionBudget) {}, true},
		"owned by something":     {func(b *policyv1.PodDisruptionBudget) { b.OwnerReferences = owner("Application") }, false},
		"a copy":                 {func(b *policyv1.PodDisruptionBudget) { b.Name = "mine" }, false},
		"of a user, by its name": {func(b *policyv1.PodDisruptionBudget) { b.Labels = nil }, false},
	} {
		budget := DisruptionBudget(sg, 6)
		c.change(budget)
		if got := OwnBudget(budget); got != c.want {
			t.Errorf("%s: ours: %v", name, got)
		}
	}
}
