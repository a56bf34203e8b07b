// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
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
