// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// checkAlpha lists the errors in the fields of a v1alpha1 service that the conversion to v1beta1 alters: amounts that are not quantities,
// mounts without a path, and a second main container.
func checkAlpha(dgd *nvidiav1alpha1.DynamoGraphDeployment, path *field.Path, name string) []error {
	if dgd == nil || dgd.Spec.Services[name] == nil {
		return nil
	}
	a := &alphaChecks{path: path, spec: dgd.Spec.Services[name]}
	if r := a.spec.Resources; r != nil {
		a.amounts("requests", r.Requests)
		a.amounts("limits", r.Limits)
	}
	for i := range a.spec.VolumeMounts {
		if mount := &a.spec.VolumeMounts[i]; mount.MountPoint == "" && !mount.UseAsCompilationCache {
			a.invalid(a.mainPath("volumeMounts").Key(mount.Name).Child("mountPoint").InAlpha(a.path.Child("volumeMounts").Key(mount.Name).
				Child("mountPoint")), "mountPoint is required when useAsCompilationCache is false or the framework has no well-known cache")
		}
	}
	a.mainContainers()
	return a.errs
}

type alphaChecks struct {
	path *field.Path
	spec *nvidiav1alpha1.ServiceSpec
	errs []error
}

func (a *alphaChecks) invalid(path *field.Path, format string, args ...any) {
	a.errs = append(a.errs, invalid(path, format, args...))
}

// mainPath returns the v1beta1 path of a field of the main container.
func (a *alphaChecks) mainPath(name string, more ...string) *field.Path {
	return a.path.Child("podTemplate", "spec", "containers").Key(mainContainerName).Child(name, more...)
}

func (a *alphaChecks) mainContainers() {
	extra := a.spec.ExtraPodSpec
	if extra == nil || extra.PodSpec == nil {
		return
	}
	for i := range extra.PodSpec.Containers {
		if extra.PodSpec.Containers[i].Name == mainContainerName && (extra.MainContainer == nil ||
			cmp.Or(extra.MainContainer.Name, mainContainerName) == mainContainerName) {
			a.invalid(a.path.Child("podTemplate", "spec", "containers"), twoContainers, mainContainerName, ownContainer)
		}
	}
}

func (a *alphaChecks) amounts(list string, item *nvidiav1alpha1.ResourceItem) {
	if item == nil {
		return
	}
	path := a.path.Child("resources", list)
	a.amount(list, string(corev1.ResourceCPU), path.Child("cpu"), item.CPU)
	a.amount(list, string(corev1.ResourceMemory), path.Child("memory"), item.Memory)
	a.amount(list, cmp.Or(item.GPUType, resourceGPU), path.Child("gpu"), item.GPU)
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		a.amount(list, name, path.Child("custom").Key(name), item.Custom[name])
	}
}

func (a *alphaChecks) amount(list, name string, alpha *field.Path, text string) {
	if text == "" {
		return
	}
	path := a.mainPath("resources", list).Key(name).InAlpha(alpha)
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
