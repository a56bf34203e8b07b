// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// resourceGPU is the resource that gpu counts unless gpuType names another.
const resourceGPU = "nvidia.com/gpu"

// mergeResources copies the service's amounts key by key over the main container's own and appends its claims.
func (t *templater) mergeResources(into *corev1.ResourceRequirements) {
	r := t.spec.Resources
	if r == nil {
		return
	}
	into.Requests = t.mergeAmounts(into.Requests, t.path+".resources.requests", r.Requests)
	into.Limits = t.mergeAmounts(into.Limits, t.path+".resources.limits", r.Limits)
	for _, claim := range r.Claims {
		if !hasClaim(into.Claims, claim) {
			into.Claims = append(into.Claims, claim)
		}
	}
}

func hasClaim(claims []corev1.ResourceClaim, claim corev1.ResourceClaim) bool {
	for _, c := range claims {
		if c == claim {
			return true
		}
	}
	return false
}

func (t *templater) mergeAmounts(into corev1.ResourceList, path string, item *nvidiav1alpha1.ResourceItem) corev1.ResourceList {
	if item == nil {
		return into
	}
	amounts := corev1.ResourceList{}
	t.amount(amounts, corev1.ResourceCPU, path+".cpu", item.CPU)
	t.amount(amounts, corev1.ResourceMemory, path+".memory", item.Memory)
	t.amount(amounts, gpuName(item), path+".gpu", item.GPU)
	for _, name := range sortedKeys(item.Custom) {
		t.amount(amounts, corev1.ResourceName(name), path+".custom["+name+"]", item.Custom[name])
	}
	if into == nil && len(amounts) > 0 {
		into = corev1.ResourceList{}
	}
	for name, quantity := range amounts {
		into[name] = quantity
	}
	return into
}

func gpuName(item *nvidiav1alpha1.ResourceItem) corev1.ResourceName {
	if item.GPUType != "" {
		return corev1.ResourceName(item.GPUType)
	}
	return resourceGPU
}

func (t *templater) amount(into corev1.ResourceList, name corev1.ResourceName, path, text string) {
	if text == "" {
		return
	}
	quantity, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		t.invalid(path, "%q is not a quantity; write a number with an optional unit, like \"8\", \"500m\" or \"16Gi\"", text)
	case quantity.Sign() < 0:
		t.invalid(path, "%q is negative; write zero or more", text)
	case len(validation.IsQualifiedName(string(name))) > 0:
		t.invalid(path, "%q is not a resource name; write one like \"rdma/ib\"", name)
	default:
		into[name] = quantity
	}
}

// normalise gives every resource that cannot be overcommitted (devices, huge pages) both a request and a limit, as the API server wants
// it and the planner counts it, and refuses what no API server would take.
func (t *templater) normalise(path string, r *corev1.ResourceRequirements) {
	for _, name := range sortedKeys(union(r.Requests, r.Limits)) {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		exact := !overcommits(name)
		switch {
		case exact && !limited:
			set(&r.Limits, name, request)
		case exact && !requested:
			set(&r.Requests, name, limit)
		case exact && request.Cmp(limit) != 0:
			t.invalid(path, "%s: request %s and limit %s differ; make them equal, or write only one", name, request.String(), limit.String())
		case requested && limited && request.Cmp(limit) > 0:
			t.invalid(path, "%s: request %s is above limit %s; lower the request or raise the limit", name, request.String(), limit.String())
		}
		if amount := union(r.Requests, r.Limits)[name]; strings.Contains(string(name), "/") && amount.MilliValue()%1000 != 0 {
			t.invalid(path, "%s: %s is not a whole number, and devices cannot be split", name, amount.String())
		}
	}
}

func overcommits(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

func union(a, b corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{b, a} {
		for name, quantity := range list {
			out[name] = quantity
		}
	}
	return out
}

func set(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity
}
