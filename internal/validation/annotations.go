// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Annotations whose values are checked.
const (
	annotationOriginVersion   = "nvidia.com/dynamo-operator-origin-version"
	annotationExecutorBackend = "nvidia.com/vllm-distributed-executor-backend"
	annotationDiscoveryMode   = "nvidia.com/dynamo-kube-discovery-mode"
)

var annotationsPath = field.NewPath("metadata", "annotations")

func annotationPath(key string) *field.Path { return annotationsPath.Key(key) }

func annotations(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	path := annotationsPath
	errs := oneOf(path, dgd.Annotations, annotationExecutorBackend, "mp", "ray")
	errs = append(errs, oneOf(path, dgd.Annotations, annotationDiscoveryMode, "pod", "container")...)
	errs = append(errs, oneOf(path, dgd.Annotations, render.AnnotationGenerations, "true", "false")...)
	errs = append(errs, oneOf(path, dgd.Annotations, render.AnnotationDistinctHosts, "true", "false")...)
	errs = append(errs, oneOf(specPath.Child("annotations"), dgd.Spec.Annotations, render.AnnotationDistinctHosts, "true", "false")...)
	errs = append(errs, checkDomainName(path, dgd.Annotations)...)
	errs = append(errs, oneOf(path, dgd.Annotations, render.AnnotationComputeDomainPer, render.PerName, render.PerReplica)...)
	if value, ok := dgd.Annotations[annotationOriginVersion]; ok {
		if !likeVersion(value) {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Key(annotationOriginVersion), value, "must be valid semver, e.g. 1.1.0"))
		}
	}
	return errs
}

// likeVersion reports whether Dynamo's operator would accept the text as a version: a semantic version, in which the patch number, or the
// minor and patch numbers, may be missing.
func likeVersion(text string) bool {
	return slices.ContainsFunc([]string{"", ".0", ".0.0"}, func(rest string) bool {
		_, err := version.ParseSemantic(text + rest)
		return err == nil
	})
}

func groveUpdate(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	return oneOf(annotationsPath, dgd.Annotations, specs.AnnotationGroveUpdate, render.GroveRollingRecreate, render.GroveOnDelete)
}

// componentAnnotations checks the annotations of a component's pods. It accepts any annotations if extraPodMetadata sets the executor
// backend, because v1alpha1 has always accepted this.
func componentAnnotations(s component) field.ErrorList {
	if extra := s.alpha.ExtraPodMetadata; extra != nil && extra.Annotations[annotationExecutorBackend] != "" {
		return nil
	}
	path := s.path.Child("podTemplate", "metadata", "annotations")
	errs := oneOf(path, s.template().Annotations, annotationExecutorBackend, "mp", "ray")
	errs = append(errs, oneOf(path, s.template().Annotations, render.AnnotationComputeDomainPer, render.PerName, render.PerReplica)...)
	return append(errs, checkDomainName(path, s.template().Annotations)...)
}

// oneOf checks that an annotation has one of the allowed values.
func oneOf(path *field.Path, annotations map[string]string, key string, allowed ...string) field.ErrorList {
	value, ok := annotations[key]
	if !ok || slices.Contains(allowed, value) || key == annotationExecutorBackend && slices.Contains(allowed, strings.ToLower(value)) {
		return nil
	}
	return one(badValue(field.ErrorTypeNotSupported, path.Key(key), value, fmt.Sprintf(`must be "%s"`, strings.Join(allowed, `" or "`))))
}

// oneFormOfConstraint refuses a graph with constraints both in annotations and in the spec, because it would be unclear which constraint
// applies.
func oneFormOfConstraint(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if !constraint.ByFields(dgd) {
		return nil
	}
	var errs field.ErrorList
	for _, key := range constraint.Annotations() {
		if value, ok := dgd.Annotations[key]; ok {
			errs = append(errs, badValue(field.ErrorTypeForbidden, annotationPath(key), value,
				"a topology constraint is set both by this annotation and by topologyConstraint in the spec; remove one of the two forms"))
		}
	}
	return errs
}

// unknownKeys refuses placement annotations that name no level of the topology.
func unknownKeys(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	for _, key := range []string{constraint.AnnotationRequired, constraint.AnnotationPreferred} {
		value := dgd.Annotations[key]
		if value == "" {
			continue
		}
		if _, found := constraint.DomainOf(topology, value); found {
			continue
		}
		errs = append(errs, badValue(field.ErrorTypeNotFound, annotationPath(key), value, constraint.UnknownKey(short(value), topology)))
	}
	return errs
}

// topologyAnnotationsImmutable refuses changes of topology annotations, because Trellis reads them only once, when the deployment is
// created.
func topologyAnnotationsImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, key := range constraint.Annotations() {
		now, is := updated.Annotations[key]
		before, was := old.Annotations[key]
		if is != was || now != before {
			errs = append(errs, immutableConstraint(annotationPath(key)))
		}
	}
	return errs
}

// topologyWithoutPlacement warns about annotations that name a topology but no level, because a topology alone packs nothing.
func topologyWithoutPlacement(dgd Written, _ *grovev1alpha1.ClusterTopology) []field.Text {
	a := constraint.FromAnnotations(dgd.DynamoGraphDeployment)
	if a.Topology == "" || a.Set() || constraint.ByFields(dgd.DynamoGraphDeployment) {
		return nil
	}
	return []field.Text{line(field.Say("annotation %s packs nothing by itself; say how tightly with %s or %s",
		constraint.AnnotationTopology, constraint.AnnotationRequired, constraint.AnnotationPreferred), nil)}
}

// preferredKeyWithoutEffect does the same as preferredWithoutEffect, but for annotations.
func preferredKeyWithoutEffect(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	a := constraint.FromAnnotations(dgd.DynamoGraphDeployment)
	if a.Required == "" || a.Preferred == "" || constraint.ByFields(dgd.DynamoGraphDeployment) {
		return nil
	}
	if topology != nil {
		required, _ := constraint.DomainOf(topology, a.Required)
		preferred, _ := constraint.DomainOf(topology, a.Preferred)
		if narrower(topology, preferred, required) {
			return nil
		}
	} else if a.Required != a.Preferred {
		return nil
	}
	return []field.Text{line(field.Say("annotation %s has no effect: %s is not narrower than the required %s",
		constraint.AnnotationPreferred, short(a.Preferred), short(a.Required)), nil)}
}
