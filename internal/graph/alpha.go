// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// checkAlpha lists what is wrong in those fields of a v1alpha1 service whose value v1beta1 does not hold as it stands: amounts that are no
// quantities, mounts without a path, a second main container.
func checkAlpha(dgd *nvidiav1alpha1.DynamoGraphDeployment, name string) []error {
	if dgd == nil || dgd.Spec.Services[name] == nil {
		return nil
	}
	a := &alphaChecks{path: servicePath(name), spec: dgd.Spec.Services[name]}
	if r := a.spec.Resources; r != nil {
		a.amounts(".resources.requests", r.Requests)
		a.amounts(".resources.limits", r.Limits)
	}
	for i := range a.spec.VolumeMounts {
		if mount := &a.spec.VolumeMounts[i]; mount.MountPoint == "" && !mount.UseAsCompilationCache {
			a.invalid(".volumeMounts["+mount.Name+"].mountPoint", "mountPoint is required when useAsCompilationCache is false or the framework has no well-known cache")
		}
	}
	a.mainContainers()
	return a.errs
}

type alphaChecks struct {
	path string
	spec *nvidiav1alpha1.ServiceSpec
	errs []error
}

func (a *alphaChecks) invalid(path, format string, args ...any) {
	a.errs = append(a.errs, invalid(a.path+path, format, args...))
}

func (a *alphaChecks) mainContainers() {
	extra := a.spec.ExtraPodSpec
	if extra == nil || extra.PodSpec == nil {
		return
	}
	for i := range extra.PodSpec.Containers {
		if extra.PodSpec.Containers[i].Name == mainContainerName && (extra.MainContainer == nil || cmp.Or(extra.MainContainer.Name, mainContainerName) == mainContainerName) {
			a.invalid(".extraPodSpec.containers", twoContainers, mainContainerName, mainContainerName)
		}
	}
}

func (a *alphaChecks) amounts(path string, item *nvidiav1alpha1.ResourceItem) {
	if item == nil {
		return
	}
	a.amount(string(corev1.ResourceCPU), path+".cpu", item.CPU)
	a.amount(string(corev1.ResourceMemory), path+".memory", item.Memory)
	a.amount(cmp.Or(item.GPUType, resourceGPU), path+".gpu", item.GPU)
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		a.amount(name, path+".custom["+name+"]", item.Custom[name])
	}
}

func (a *alphaChecks) amount(name, path, text string) {
	if text == "" {
		return
	}
	quantity, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		a.invalid(path, "%q is not a quantity; write a number with an optional unit, like \"8\", \"500m\" or \"16Gi\"", text)
	case quantity.Sign() < 0:
		a.invalid(path, "%q is negative; write zero or more", text)
	case len(validation.IsQualifiedName(name)) > 0:
		a.invalid(path, "%q is not a resource name; write one like \"rdma/ib\"", name)
	}
}
