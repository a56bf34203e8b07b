// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resourceGPU is the resource that counts GPUs unless v1alpha1 names another.
const resourceGPU = "nvidia.com/gpu"

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
