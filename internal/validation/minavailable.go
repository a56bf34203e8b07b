// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// enoughReplicas requires at least minAvailable replicas, or none. It does not apply to objects that were stored before this rule existed.
func enoughReplicas(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, s := range componentsOf(dgd) {
		if m, n := s.MinAvailable, s.wanted(); m != nil && n > 0 && *m > n {
			errs = append(errs, field.Invalid(s.path.Child("minAvailable"), *m,
				"minAvailable must be less than or equal to replicas unless replicas is 0; raise replicas, or set it to 0 to stop the %s",
				field.WordComponent))
		}
	}
	return errs
}

// minAvailableImmutable refuses to change or remove minAvailable. It allows adding minAvailable later.
func minAvailableImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		if before.MinAvailable != nil && !ptr.Equal(now.MinAvailable, before.MinAvailable) {
			errs = append(errs, field.Forbidden(now.path.Child("minAvailable"),
				"minAvailable is immutable after creation; put it back, or delete and recreate the DynamoGraphDeployment"))
		}
	})
	return errs
}

// minAvailableFixed refuses to add minAvailable to an existing component. Call it for providers that fix minAvailable when they create the
// first replica. They treat a missing minAvailable as 1, so adding the value 1 is allowed.
func minAvailableFixed(now, before component, provider string) *field.Error {
	if before.MinAvailable != nil || ptr.Deref(now.MinAvailable, 1) == 1 {
		return nil
	}
	return field.Forbidden(now.path.Child("minAvailable"), fmt.Sprintf(
		"minAvailable cannot be set later under the provider %s, which cannot change minAvailable of what it has created (1 to %d); "+
			"delete and recreate the DynamoGraphDeployment, or use another provider (annotation %s)", provider, *now.MinAvailable,
		render.AnnotationProvider))
}

// ScaleFloor returns an error if n is positive but less than the component's minAvailable. The error refers to the replicas field of a
// scaling adapter.
func ScaleFloor(dgd *nvidiav1beta1.DynamoGraphDeployment, name string, n int32) field.ErrorList {
	c := dgd.Component(name)
	if c == nil || c.MinAvailable == nil || n <= 0 || n >= *c.MinAvailable {
		return nil
	}
	return one(field.Invalid(specPath.Child("replicas"), n,
		"must be at least %d, the minAvailable of %s %s, or 0 to stop it; minAvailable is immutable", *c.MinAvailable, field.WordComponent,
		short(name)))
}
