// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// rolloutBounds refuses invalid annotations for rolling updates. It reports each annotation once, at its path.
func rolloutBounds(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	_, problems := rollout.SharedStrategyOf(dgd, false)
	_, more := rollout.ControlOf(dgd)
	for _, p := range slices.Concat(problems, more) {
		errs = append(errs, badValue(field.ErrorTypeInvalid, annotationPath(p.Annotation), p.Value, p.Message))
	}
	said := sets.New[string]()
	for _, s := range componentsOf(dgd) {
		_, problems := rollout.StrategyOf(rollout.AnnotationsOf(dgd, s.ComponentSpec), false)
		for _, p := range problems {
			path := annotationPath(p.Annotation)
			if _, ok := dgd.Spec.Annotations[p.Annotation]; ok {
				path = specPath.Child("annotations").Key(p.Annotation)
			}
			if _, ok := s.template().Annotations[p.Annotation]; ok {
				path = s.path.Child("podTemplate", "metadata", "annotations").Key(p.Annotation)
			}
			if !said.Has(path.String()) {
				said.Insert(path.String())
				errs = append(errs, badValue(field.ErrorTypeInvalid, path, p.Value, p.Message))
			}
		}
	}
	return errs
}
