// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// providerOverrides refuses overrides that Trellis would ignore. Overrides that were stored before this rule existed, and overrides in
// v1alpha1 fields, are accepted with a warning.
func providerOverrides(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, p := range render.OverrideProblems(dgd) {
		err := &field.Error{Type: field.ErrorTypeInvalid, Field: p.Path, BadValue: field.OmitValueType{}, Detail: field.Say(p.Text)}
		if p.Value != "" {
			err.BadValue = short(p.Value)
		}
		errs = append(errs, err)
	}
	return errs
}
