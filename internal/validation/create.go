// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// GraphCreate returns what is wrong with a new deployment: the rules of Graph, and those that objects from before them need not keep. The
// set of components never changes, so a component is new only with its deployment.
func GraphCreate(dgd Written) field.ErrorList {
	errs := Graph(dgd)
	if dgd.DynamoGraphDeployment == nil {
		return errs
	}
	if dgd.Spec.Restart != nil {
		errs = append(errs, field.Forbidden(specPath.Child("restart"),
			"spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then "+
				"set it"))
	}
	errs = append(errs, ofChanges(dgd)...)
	errs = append(errs, transfer(dgd.DynamoGraphDeployment)...)
	for _, s := range dgd.components() {
		errs = append(errs, mainImage(s)...)
		if dgd.Alpha == nil { // v1alpha1 has always taken sidecars without an image
			errs = append(errs, sidecarImages(s)...)
		}
	}
	return errs
}

// ofChanges are rules of new deployments and, ratcheted, of changes. The guard does not ask for them: deployments from before them
// continue.
func ofChanges(dgd Written) field.ErrorList {
	errs := append(groveUpdate(dgd.DynamoGraphDeployment), enoughReplicas(dgd.DynamoGraphDeployment)...)
	errs = append(errs, unconvertedTransfer(dgd)...)
	errs = append(errs, providerOverrides(dgd.DynamoGraphDeployment)...)
	errs = append(errs, containerDiscovery(dgd.DynamoGraphDeployment)...)
	for _, s := range dgd.components() {
		for _, check := range changeChecks {
			errs = append(errs, check(s)...)
		}
	}
	return errs
}

// changeChecks are those of ofChanges about each component.
var changeChecks = []func(component) field.ErrorList{
	powerLimit, containerResources, multinodeType, formerRoles, sharedMemorySign, pickerConfig, deviceService, failover, checkpoint,
}

// multinodeType: only the pods of workers form one program. A component without a type may be one, and endpointPicker speaks of its own
// type.
func multinodeType(s component) field.ErrorList {
	kind := s.explicitType()
	if !s.multinode() || slices.Contains(multinodeTypes, kind) {
		return nil
	}
	return one(field.Invalid(s.path.Child("multinode"), s.nodes(),
		"a replica of %[1]s %[2]s cannot span several nodes; remove multinode and raise replicas, or set %[1]s worker", field.WordType,
		short(kind)))
}

// multinodeTypes may have multinode, or are refused it by another rule.
var multinodeTypes = []string{
	"", string(nvidiav1beta1.ComponentTypeWorker), string(nvidiav1beta1.ComponentTypePrefill), string(nvidiav1beta1.ComponentTypeDecode),
	string(nvidiav1beta1.ComponentTypeEPP),
}

// explicitType is the type of the service, of v1alpha1 also one that v1beta1 does not have; "" for none.
func (s component) explicitType() string { return cmp.Or(string(s.Type), s.alpha.ComponentType) }

// mainImage: there is no image that would do for every component.
func mainImage(s component) field.ErrorList {
	if s.mainImage() != "" {
		return nil
	}
	return one(field.Required(s.mainPath("image"), "name the image of the main container"))
}

// mainImage is the image of the service's main container; "" for none.
func (s component) mainImage() string {
	if c := s.mainContainer(); c != nil {
		return c.Image
	}
	return ""
}

// mainContainer of the component; nil where it has none.
func (s component) mainContainer() *corev1.Container {
	for i := range s.template().Spec.Containers {
		if c := &s.template().Spec.Containers[i]; c.Name == nvidiav1beta1.MainContainerName {
			return c
		}
	}
	return nil
}

// imagesKept: an image may change, but not go. Containers that never had one stay as they are, and so does v1alpha1, which takes sidecars
// without an image.
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

// sidecarImages: the API server refuses a pod that has a container without an image, which no one sees who creates a deployment.
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
