// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-k8s/trellis/internal/graph"
)

// providerOverrides refuses what would be left out. Overrides that were stored before the rule are, with a warning.
func providerOverrides(dgd Written) field.ErrorList {
	var errs field.ErrorList
	for _, p := range graph.OverrideProblems(dgd.DynamoGraphDeployment) {
		err := &field.Error{Type: field.ErrorTypeInvalid, Field: p.Path, BadValue: field.OmitValueType{}, Detail: p.Text}
		if p.Value != "" {
			err.BadValue = short(p.Value)
		}
		errs = append(errs, err)
	}
	// What has another form stays in v1alpha1 and is not converted.
	unread := func(path *field.Path, written, read bool) {
		if written && !read {
			errs = append(errs, field.Invalid(path.Child("providerOverride"), field.OmitValueType{}, "must have apiVersion and value, and may have target"))
		}
	}
	if dgd.Alpha != nil {
		unread(specPath, dgd.Alpha.Spec.ProviderOverride != nil, dgd.Spec.ProviderOverride != nil)
	}
	for _, s := range dgd.services() {
		unread(s.path, s.alpha.ProviderOverride != nil, s.ProviderOverride != nil)
	}
	return errs
}
