// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// mainImage requires an image for the main container, because no default image suits every component.
func mainImage(s component) field.ErrorList {
	if s.mainImage() != "" {
		return nil
	}
	const text = "name the image of the main container"
	if others := s.instead(); len(others) > 0 {
		return one(field.Required(s.mainPath("image"), text+": the container that serves has the name %s, and none of %q has; rename the one "+
			"that serves", nvidiav1beta1.MainContainerName, others))
	}
	return one(field.Required(s.mainPath("image"), text))
}

// maxInstead is the maximum number of containers that an error names.
const maxInstead = 4

// instead lists the containers of a v1beta1 component that has containers but no main container.
func (s component) instead() []string {
	if s.mainContainer() != nil || s.alpha.ExtraPodSpec != nil {
		return nil
	}
	var names []string
	for i := range s.template().Spec.Containers {
		names = append(names, short(s.template().Spec.Containers[i].Name))
	}
	return limit.First(names, maxInstead, "containers")
}

// mainImage returns the image of the component's main container; "" for none.
func (s component) mainImage() string {
	if c := s.mainContainer(); c != nil {
		return c.Image
	}
	return ""
}

// mainContainer returns the main container of the component; nil for none.
func (s component) mainContainer() *corev1.Container {
	for i := range s.template().Spec.Containers {
		if c := &s.template().Spec.Containers[i]; c.Name == nvidiav1beta1.MainContainerName {
			return c
		}
	}
	return nil
}

// imagesKept allows changing images but not removing them. It accepts containers that never had an image, and v1alpha1 sidecars without an
// image.
func imagesKept(now, before Written) field.ErrorList {
	known := map[string]component{}
	for _, s := range before.components() {
		known[s.name] = s
	}
	var errs field.ErrorList
	for _, s := range now.components() {
		was, there := known[s.name]
		if !there {
			continue
		}
		errs = append(errs, ratchet(mainImage(s), mainImage(was))...)
		if now.Alpha == nil {
			errs = append(errs, ratchet(sidecarImages(s), sidecarImages(was))...)
		}
	}
	return errs
}

// sidecarImages requires an image for every container except the main container. Otherwise the API server would refuse the pods, and the
// creator of the deployment would not see this error.
func sidecarImages(s component) field.ErrorList {
	var errs field.ErrorList
	check := func(list string, containers []corev1.Container) {
		for i := range containers {
			if c := &containers[i]; c.Image == "" && (list == "initContainers" || c.Name != nvidiav1beta1.MainContainerName) {
				errs = append(errs, field.Required(s.podPath(list).Key(short(c.Name)).Child("image"), "name the image of this container"))
			}
		}
	}
	check("containers", s.template().Spec.Containers)
	check("initContainers", s.template().Spec.InitContainers)
	return errs
}
