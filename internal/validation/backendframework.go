// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

func backendFramework(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	known := []nvidiav1beta1.BackendFramework{
		nvidiav1beta1.BackendFrameworkSGLang, nvidiav1beta1.BackendFrameworkTRTLLM, nvidiav1beta1.BackendFrameworkVLLM,
	}
	if f := dgd.Spec.BackendFramework; f != "" && !slices.Contains(known, f) {
		return one(field.NotSupported(specPath.Child("backendFramework"), short(string(f)), known))
	}
	return nil
}
