// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// Annotations whose values are checked.
const (
	annotationOriginVersion   = "nvidia.com/dynamo-operator-origin-version"
	annotationExecutorBackend = "nvidia.com/vllm-distributed-executor-backend"
	annotationDiscoveryMode   = "nvidia.com/dynamo-kube-discovery-mode"
)

// topologyAnnotations state a topology constraint by node label keys.
var topologyAnnotations = []string{
	"kai.scheduler/topology", "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement",
}

func annotations(dgd *nvidiav1alpha1.DynamoGraphDeployment) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := oneOf(path, dgd.Annotations, annotationExecutorBackend, "mp", "ray")
	errs = append(errs, oneOf(path, dgd.Annotations, annotationDiscoveryMode, "pod", "container")...)
	if value, ok := dgd.Annotations[annotationOriginVersion]; ok {
		if _, err := version.ParseSemantic(value); err != nil {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Key(annotationOriginVersion), value, "must be valid semver, e.g. 1.1.0"))
		}
	}
	return errs
}

func serviceAnnotations(s service) field.ErrorList {
	return oneOf(s.path.Child("annotations"), s.Annotations, annotationExecutorBackend, "mp", "ray")
}

// oneOf checks an annotation that has a fixed set of values.
func oneOf(path *field.Path, annotations map[string]string, key string, allowed ...string) field.ErrorList {
	value, ok := annotations[key]
	if !ok || slices.Contains(allowed, value) {
		return nil
	}
	return one(badValue(field.ErrorTypeNotSupported, path.Key(key), value, fmt.Sprintf(`must be "%s"`, strings.Join(allowed, `" or "`))))
}

// oneFormOfConstraint refuses a graph that states its constraint both in annotations and in the spec: nobody could say which one holds.
func oneFormOfConstraint(dgd *nvidiav1alpha1.DynamoGraphDeployment) field.ErrorList {
	if !Constrained(dgd) {
		return nil
	}
	var errs field.ErrorList
	for _, key := range topologyAnnotations {
		if value, ok := dgd.Annotations[key]; ok {
			errs = append(errs, badValue(field.ErrorTypeForbidden, field.NewPath("metadata", "annotations").Key(key), value,
				"a topology constraint is set both by this annotation and by topologyConstraint in the spec; remove one of the two forms"))
		}
	}
	return errs
}
