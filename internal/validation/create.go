// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"github.com/trellis-k8s/trellis/internal/field"
)

// GraphCreate returns the errors in a new deployment: the errors of Graph, and the errors of rules from which existing deployments are
// exempt. A component cannot be added to an existing deployment, so every new component is in a new deployment.
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
		if dgd.Alpha == nil { // v1alpha1 has always accepted sidecars without an image
			errs = append(errs, sidecarImages(s)...)
		}
	}
	return errs
}

// ofChanges applies the rules for creates and updates. GraphUpdate drops the errors that the old object already had. The guard in Reconcile
// does not apply these rules, so that older deployments keep working.
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

// changeChecks are the rules that ofChanges applies to each component.
var changeChecks = []func(component) field.ErrorList{
	powerLimit, containerResources, multinodeType, formerRoles, sharedMemorySign, pickerConfig, deviceService, failover, checkpoint,
}
