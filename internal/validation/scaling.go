// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// ReplicasOwner returns the services whose number of replicas a change of the deployment touches although a scaling adapter owns it.
// A service that is handed over to its adapter, or taken back, in the same change may have any number. adapterOf names a service's adapter.
func ReplicasOwner(updated, old *nvidiav1beta1.DynamoGraphDeployment, adapterOf func(service string) string) field.ErrorList {
	if updated == nil || old == nil || updated.DeletionTimestamp != nil {
		return nil
	}
	var errs field.ErrorList
	forServicesInBoth(updated, old, func(now, before service) {
		if !now.scaled() || !before.scaled() || now.wanted() == before.wanted() {
			return
		}
		path := now.path.Child("replicas")
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s cannot be modified directly when scaling adapter is enabled (it is %d); "+
			"scale or update the related DynamoGraphDeploymentScalingAdapter instead: kubectl scale dgdsa/%s --replicas=%d",
			path, before.wanted(), adapterOf(now.name), max(now.wanted(), 0))))
	})
	return errs
}

// ReplicasAllowed returns why a service may not have so many replicas.
func ReplicasAllowed(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) field.ErrorList {
	var errs field.ErrorList
	for _, s := range servicesOf(dgd) {
		if s.name != name {
			continue
		}
		spec := *s.ComponentSpec
		spec.Replicas, s.ComponentSpec = &n, &spec
		errs = append(replicas(s), pickerReplicas(s)...)
	}
	return errs
}

// scaled says that an adapter owns the service's replicas.
func (s service) scaled() bool { return s.ScalingAdapter != nil }

// wanted is the number of replicas the service asks for.
func (s service) wanted() int32 {
	if s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}
