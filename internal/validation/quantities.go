// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// defaultGPU is the resource that counts GPUs unless gpuType names another resource.
const defaultGPU = "nvidia.com/gpu"

const quantityHelp = `must be a Kubernetes quantity such as "4", "500m" or "16Gi"`

// longestQuantity and absurdExponent exclude amounts such as 1e1000000000, because comparing such amounts would write out all their digits.
const longestQuantity = 64

var absurdExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// amount is one entry of requests or limits.
type amount struct {
	path     *field.Path
	resource string
	text     string
	// whole: the amount must be an integer, because devices cannot be split.
	whole bool
}

// resources checks the resource names and amounts in v1alpha1. This check is needed because the schema of v1alpha1 accepts any string.
func resources(s component) field.ErrorList {
	written := s.alpha.Resources
	if written == nil {
		return nil
	}
	limits, errs := quantities(amounts(s, "limits", written.Limits))
	asks := amounts(s, "requests", written.Requests)
	requests, more := quantities(asks)
	errs = append(errs, more...)
	for _, a := range asks {
		request, asked := requests[a.resource]
		limit, limited := limits[a.resource]
		if asked && limited && request.Cmp(limit) > 0 {
			errs = append(errs, badValue(field.ErrorTypeInvalid, a.path, a.text,
				"must not be more than the limit of %s; raise resources.limits or ask for less", limit.String()))
		}
	}
	return errs
}

// containerResources checks the amounts of every container. It omits the amounts in v1alpha1 resources, which [resources] checks with its
// own messages.
func containerResources(s component) field.ErrorList {
	var errs field.ErrorList
	check := func(path *field.Path, r corev1.ResourceRequirements) {
		for _, p := range render.ResourceProblems(&r) {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("resources", p.List).Key(string(p.Resource)), p.Amount.String(), p.Text))
		}
	}
	pod, path := &s.template().Spec, s.podPath()
	for i := range pod.Containers {
		switch c := &pod.Containers[i]; {
		case c.Name != nvidiav1beta1.MainContainerName:
			check(path.Child("containers").Key(short(c.Name)), c.Resources)
		case s.alpha.Resources == nil:
			check(path.Child("containers").Key(c.Name).InAlpha(s.path.Child("extraPodSpec", "mainContainer")), c.Resources)
		}
	}
	for i := range pod.InitContainers {
		check(path.Child("initContainers").Key(short(pod.InitContainers[i].Name)), pod.InitContainers[i].Resources)
	}
	return errs
}

// quantities parses the entries, and returns an error for each entry that is not a valid amount.
func quantities(leaves []amount) (map[string]resource.Quantity, field.ErrorList) {
	parsed := map[string]resource.Quantity{}
	var errs field.ErrorList
	for _, a := range leaves {
		if problems := validation.IsQualifiedName(a.resource); len(problems) > 0 {
			errs = append(errs, badValue(field.ErrorTypeInvalid, a.path, a.resource, "not a resource name: "+strings.Join(problems, "; ")))
			continue
		}
		quantity, problem := parse(a)
		if problem != "" {
			errs = append(errs, badValue(field.ErrorTypeInvalid, a.path, a.text, problem))
			continue
		}
		parsed[a.resource] = quantity
	}
	return parsed, errs
}

func parse(a amount) (resource.Quantity, string) {
	if len(a.text) > longestQuantity || absurdExponent.MatchString(a.text) {
		return resource.Quantity{}, quantityHelp
	}
	quantity, err := resource.ParseQuantity(a.text)
	switch {
	case err != nil:
		return resource.Quantity{}, quantityHelp
	case quantity.Sign() < 0:
		return resource.Quantity{}, "must not be negative"
	case a.whole && resource.NewQuantity(quantity.Value(), resource.DecimalSI).Cmp(quantity) != 0:
		return resource.Quantity{}, fmt.Sprintf("must be a whole number: %s cannot be split", a.resource)
	}
	return quantity, ""
}

// amounts lists the entries in the requests or limits of v1alpha1, each with the name of its resource.
func amounts(s component, list string, item *nvidiav1alpha1.ResourceItem) []amount {
	if item == nil {
		return nil
	}
	gpu := item.GPUType
	if gpu == "" {
		gpu = defaultGPU
	}
	path := s.path.Child("resources", list)
	all := []amount{
		{path.Child("cpu"), string(corev1.ResourceCPU), item.CPU, false},
		{path.Child("memory"), string(corev1.ResourceMemory), item.Memory, false},
		{path.Child("gpu"), gpu, item.GPU, true},
	}
	all = slices.DeleteFunc(all, func(a amount) bool { return a.text == "" })
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		all = append(all, amount{path.Child("custom").Key(short(name)), name, item.Custom[name], strings.Contains(name, "/")})
	}
	for i := range all {
		all[i].path = s.mainPath("resources", list).Key(short(all[i].resource)).InAlpha(all[i].path)
	}
	return all
}
