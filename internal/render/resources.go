// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trellis-k8s/trellis/internal/field"
)

// resourceGPU is the resource that counts GPUs, unless the v1alpha1 form names another resource.
const resourceGPU = "nvidia.com/gpu"

// normalise gives every resource that cannot be overcommitted (devices, huge pages) both a request and a limit, as the API server and the
// planner expect. It reports resources that the API server would refuse.
func (t *templater) normalise(path *field.Path, r *corev1.ResourceRequirements) {
	for _, problem := range ResourceProblems(r) {
		t.invalid(path, "%s: %s", problem.Resource, problem.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(union(r.Requests, r.Limits))) {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case overcommits(name):
		case !limited:
			set(&r.Limits, name, request)
		case !requested:
			set(&r.Requests, name, limit)
		}
	}
}

// ResourceProblem is a resource of a container that the API server would refuse.
type ResourceProblem struct {
	// List is "requests" or "limits".
	List     string
	Resource corev1.ResourceName
	Amount   resource.Quantity
	// Text describes the problem and its fix.
	Text string
}

// ResourceProblems checks the resources of one container. The problems are sorted by resource name.
func ResourceProblems(r *corev1.ResourceRequirements) []ResourceProblem {
	var problems []ResourceProblem
	for _, name := range slices.Sorted(maps.Keys(union(r.Requests, r.Limits))) {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		p := ResourceProblem{List: "limits", Resource: name, Amount: limit}
		if requested && !absurd(limit) {
			p.List, p.Amount = "requests", request
		}
		switch both := requested && limited; {
		case absurd(p.Amount):
			p.Text = p.Amount.String() + " is out of range; no node has that much"
		case request.Sign() < 0 || limit.Sign() < 0:
			p.Text = "must not be negative"
		case both && !overcommits(name) && request.Cmp(limit) != 0:
			p.Text = fmt.Sprintf("request %s and limit %s differ; make them equal, or write only one", request.String(), limit.String())
		case both && request.Cmp(limit) > 0:
			p.Text = fmt.Sprintf("request %s is above limit %s; lower the request or raise the limit", request.String(), limit.String())
		case strings.Contains(string(name), "/") && p.Amount.MilliValue()%1000 != 0:
			p.Text = p.Amount.String() + " is not a whole number, and devices cannot be split"
		default:
			continue
		}
		problems = append(problems, p)
	}
	return problems
}

// maxExponent is the maximum exponent of an amount that is compared with another amount. A comparison writes out all digits of both
// amounts, so larger exponents would make it too expensive. The exponents of real amounts are far smaller.
const maxExponent = 100

// absurd reports whether the exponent of an amount is so large that a comparison would need minutes and gigabytes, as for 1e1000000000.
func absurd(q resource.Quantity) bool {
	scale := q.AsDec().Scale()
	return scale > maxExponent || scale < -maxExponent
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
