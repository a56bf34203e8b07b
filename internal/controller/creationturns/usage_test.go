// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Quotas that pods use up have gangs created in turn, and gated.
func TestQuotasThatCountPods(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"pods": true, "count/pods": true, "cpu": true, "memory": true, "requests.cpu": true, "limits.memory": true, "requests.nvidia.com/gpu": true,
		"ephemeral-storage": true, "hugepages-2Mi": true, "requests.ephemeral-storage": true,
		"services": false, "requests.storage": false, "count/configmaps": false, "persistentvolumeclaims": false,
		"gold.storageclass.storage.k8s.io/requests.storage": false,
	} {
		if got := Counts(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Scopes select pods as in the quota plugin of the API server.
func TestScopes(t *testing.T) {
	with := func(operator corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values}
	}
	scope := func(name corev1.ResourceQuotaScope) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists}
	}
	usual, high, ends, cpu := podOf(1, ""), podOf(1, "high"), podOf(1, ""), podOf(0, "")
	ends.Spec.ActiveDeadlineSeconds = ptr.To(int64(5))
	cpu.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *ptr.To(quotaOf("", "x", 1, 0).Spec.Hard["x"])}
	for _, tc := range []struct {
		one  corev1.ScopedResourceSelectorRequirement
		want [4]bool // of usual, high, ends and cpu
	}{
		{with(corev1.ScopeSelectorOpIn, "high"), [4]bool{false, true, false, false}},
		{with(corev1.ScopeSelectorOpNotIn, "high"), [4]bool{true, false, true, true}},
		{with(corev1.ScopeSelectorOpExists), [4]bool{false, true, false, false}},
		{with(corev1.ScopeSelectorOpDoesNotExist), [4]bool{true, false, true, true}},
		{scope(corev1.ResourceQuotaScopeTerminating), [4]bool{false, false, true, false}},
		{scope(corev1.ResourceQuotaScopeNotTerminating), [4]bool{true, true, false, true}},
		{scope(corev1.ResourceQuotaScopeBestEffort), [4]bool{true, true, true, false}},
		{scope(corev1.ResourceQuotaScopeNotBestEffort), [4]bool{false, false, false, true}},
	} {
		quota := quotaOf("q", "pods", 1, 0, tc.one)
		for i, pod := range []*corev1.Pod{usual, high, ends, cpu} {
			if charge := ChargeOf(pod); charge.counts(&quota) != tc.want[i] {
				t.Errorf("%s %s %v: pod %d is counted: %v", tc.one.ScopeName, tc.one.Operator, tc.one.Values, i, !tc.want[i])
			}
		}
	}
}
