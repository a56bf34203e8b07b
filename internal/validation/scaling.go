// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// ReplicasKept warns if an update changes the replicas of a component whose replicas a scaling adapter owns. Admission keeps the old
// number. adapterOf returns the name of a component's adapter.
func ReplicasKept(updated, old *nvidiav1beta1.DynamoGraphDeployment, adapterOf func(component string) string) []field.Text {
	if updated == nil || old == nil {
		return nil
	}
	var kept []field.Text
	forComponentsInBoth(updated, old, func(now, before component) {
		if (now.scaled() || before.scaled()) && now.wanted() != before.wanted() {
			kept = append(kept, field.Say("%s stays %d: DynamoGraphDeploymentScalingAdapter %q owns it", now.path.Child("replicas"), before.wanted(),
				adapterOf(now.name)))
		}
	})
	return kept
}

// ReplicasAllowed returns the errors in scaling the named component to n replicas; nil if the number is allowed.
func ReplicasAllowed(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) field.ErrorList {
	var errs field.ErrorList
	for _, s := range componentsOf(dgd) {
		if s.name != name {
			continue
		}
		spec := *s.ComponentSpec
		spec.Replicas, s.ComponentSpec = &n, &spec
		errs = append(replicas(s), append(pickerReplicas(s), ScaleFloor(dgd, name, n)...)...)
	}
	return errs
}

// scaled reports whether a scaling adapter owns the component's replicas.
func (s component) scaled() bool { return s.ScalingAdapter != nil }

// wanted returns the wanted number of replicas: 1 if the spec does not set it.
func (s component) wanted() int32 {
	if s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}
