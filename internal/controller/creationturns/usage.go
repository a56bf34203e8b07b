// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// Charge has a pod's usage of ResourceQuotas, and the properties by which quotas select the pod.
type Charge struct {
	usage corev1.ResourceList
	// class is the name of the PriorityClass. terminating: the pod has activeDeadlineSeconds.
	class       string
	terminating bool
	// bestEffort: the pod has neither requests nor limits of cpu and memory.
	bestEffort bool
}

// ChargeOf returns the charge of a pod. It follows the evaluator of the API server's quota plugin.
func ChargeOf(pod *corev1.Pod) Charge {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	usage := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	limits := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	for name, amount := range requests {
		if isNative(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			usage[name] = amount
		}
		usage[corev1.DefaultResourceRequestsPrefix+name] = amount
	}
	for name, amount := range limits {
		if isNative(name) {
			usage["limits."+name] = amount
		}
	}
	bestEffort := requests.Cpu().IsZero() && requests.Memory().IsZero() && limits.Cpu().IsZero() && limits.Memory().IsZero()
	deadline := pod.Spec.ActiveDeadlineSeconds
	return Charge{
		usage: usage, class: pod.Spec.PriorityClassName, terminating: deadline != nil && *deadline >= 0, bestEffort: bestEffort,
	}
}

func isNative(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// Counts reports whether pods use up a quota for this resource.
func Counts(name corev1.ResourceName) bool {
	switch {
	case name == corev1.ResourcePods, name == "count/pods", isNative(name):
		return true
	case name == corev1.ResourceRequestsStorage:
		return false
	}
	return strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) || strings.HasPrefix(string(name), "limits.") ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// CountsPods reports whether a quota limits pods or resources that pods request.
func CountsPods(quota *corev1.ResourceQuota) bool {
	for name := range quota.Spec.Hard {
		if Counts(name) {
			return true
		}
	}
	return false
}

// counts reports whether the scopes of a quota select the pod.
func (c *Charge) counts(quota *corev1.ResourceQuota) bool {
	for _, scope := range quota.Spec.Scopes {
		if !c.matches(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	return quota.Spec.ScopeSelector == nil || !slices.ContainsFunc(quota.Spec.ScopeSelector.MatchExpressions,
		func(one corev1.ScopedResourceSelectorRequirement) bool { return !c.matches(one) })
}

func (c *Charge) matches(one corev1.ScopedResourceSelectorRequirement) bool {
	switch one.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return c.terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !c.terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return c.bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !c.bestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		return hasClass(c.class, one)
	}
	return false // an unknown scope: the API server decides
}

func hasClass(class string, one corev1.ScopedResourceSelectorRequirement) bool {
	switch one.Operator {
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(one.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return class == "" || !slices.Contains(one.Values, class)
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	}
	return class != ""
}

// Pods is a number of pods with the same charge.
type Pods struct {
	Charge
	Count int64
}

// need returns the amounts that the pods would use of a quota, by resource that the quota limits.
func need(pods []Pods, quota *corev1.ResourceQuota) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range pods {
		one := &pods[i]
		if one.Count == 0 || !one.counts(quota) {
			continue
		}
		for name := range quota.Status.Hard {
			amount, uses := one.usage[name]
			if !uses || amount.IsZero() {
				continue
			}
			amount = amount.DeepCopy()
			amount.Mul(one.Count)
			sum := out[name]
			sum.Add(amount)
			out[name] = sum
		}
	}
	return out
}
