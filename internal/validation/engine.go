// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// Annotations that choose what gets the gangs onto nodes.
const (
	annotationEngine      = "trellis.dev/engine"
	annotationEnableGrove = "nvidia.com/enable-grove"
)

// engine checks the annotations that choose it.
func engine(dgd *nvidiav1alpha1.DynamoGraphDeployment) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := oneOf(path, dgd.Annotations, annotationEngine, "auto", "Gates", "PodGroup", "KAI", "Grove")
	if dgd.Annotations[annotationEngine] == "Grove" && dgd.Annotations[annotationEnableGrove] == "false" {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Key(annotationEngine), "Grove",
			annotationEnableGrove+` "false" rules Grove out; remove one of the two annotations`))
	}
	return errs
}

// engineImmutable bars choosing another engine while there are pods made for this one. It looks at the annotation and at the status that
// the object itself carries, so that it needs no look at the cluster.
func engineImmutable(updated, old *nvidiav1alpha1.DynamoGraphDeployment) field.ErrorList {
	now, before := updated.Annotations[annotationEngine], old.Annotations[annotationEngine]
	if now == before {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(old.Status.Services)) {
		if service := old.Status.Services[name]; service.Replicas > 0 {
			return one(field.Forbidden(field.NewPath("metadata", "annotations").Key(annotationEngine), fmt.Sprintf(
				"the engine is immutable while the deployment has pods (service %s has %d replicas); scale all services to 0 first, or delete and recreate the DynamoGraphDeployment",
				short(name), service.Replicas)))
		}
	}
	return nil
}
