// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// GraphCreate returns what is wrong with a new deployment: the rules of Graph, and those that objects from before them need not keep. The set
// of components never changes, so a component is new only with its deployment.
func GraphCreate(dgd Written) field.ErrorList {
	errs := Graph(dgd)
	if dgd.DynamoGraphDeployment == nil {
		return errs
	}
	if dgd.Spec.Restart != nil {
		errs = append(errs, field.Forbidden(specPath.Child("restart"),
			"spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then set it"))
	}
	errs = append(errs, ofChanges(dgd)...)
	errs = append(errs, transfer(dgd.DynamoGraphDeployment)...)
	for _, s := range dgd.services() {
		errs = append(errs, mainImage(s)...)
		if dgd.Alpha == nil { // v1alpha1 has always taken sidecars without an image
			errs = append(errs, sidecarImages(s)...)
		}
	}
	return errs
}

// ofChanges are rules of new deployments and, ratcheted, of changes. The guard does not ask for them: deployments from before them go on.
func ofChanges(dgd Written) field.ErrorList {
	errs := append(groveUpdate(dgd.DynamoGraphDeployment), enoughReplicas(dgd.DynamoGraphDeployment)...)
	for _, s := range dgd.services() {
		errs = append(errs, powerLimit(s)...)
		errs = append(errs, containerResources(s)...)
	}
	return errs
}

// mainImage: there is no image that would do for every component.
func mainImage(s service) field.ErrorList {
	for i := range s.template().Spec.Containers {
		if c := &s.template().Spec.Containers[i]; c.Name == nvidiav1beta1.MainContainerName && c.Image != "" {
			return nil
		}
	}
	return one(field.Required(s.path.Child("extraPodSpec", "mainContainer", "image"), "name the image of the main container"))
}

// sidecarImages: the API server refuses a pod that has a container without an image, which nobody sees who creates a deployment.
func sidecarImages(s service) field.ErrorList {
	var errs field.ErrorList
	check := func(list string, containers []corev1.Container) {
		for i := range containers {
			if c := &containers[i]; c.Image == "" && (list == "initContainers" || c.Name != nvidiav1beta1.MainContainerName) {
				errs = append(errs, field.Required(s.path.Child("extraPodSpec", list).Key(short(c.Name)).Child("image"), "name the image of this container"))
			}
		}
	}
	check("containers", s.template().Spec.Containers)
	check("initContainers", s.template().Spec.InitContainers)
	return errs
}
