// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// GraphTopology checks a new deployment against the ClusterTopology it names, as read with readErr. It is asked on create only: a level
// that disappears later is reported in a condition and blocks no update.
func GraphTopology(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology, readErr error) field.ErrorList {
	profile := constraint.Profile(dgd)
	switch {
	case profile == "":
		return nil
	case apierrors.IsNotFound(readErr), readErr == nil && topology == nil:
		return one(badValue(field.ErrorTypeNotFound, profilePathOf(dgd), profile, constraint.NotFound(short(profile))))
	case readErr != nil:
		return one(unreadable(profilePathOf(dgd), profile, readErr))
	}
	if !constraint.ByFields(dgd) {
		return unknownKeys(dgd, topology)
	}
	errs := unknownDomains(dgd, topology)
	return append(errs, broaderServices(dgd, topology)...)
}

// profilePathOf is where the deployment names its topology.
func profilePathOf(dgd *nvidiav1beta1.DynamoGraphDeployment) *field.Path {
	if constraint.ByFields(dgd) {
		return profilePath
	}
	return annotationPath(constraint.AnnotationTopology)
}

// unreadable refuses the deployment although nothing may be wrong with it: unchecked, its constraint might never be satisfiable.
func unreadable(path *field.Path, profile string, readErr error) *field.Error {
	fix := "create the DynamoGraphDeployment again once it can be read"
	switch {
	case meta.IsNoMatchError(readErr):
		fix = "install the CustomResourceDefinition clustertopologies.grove.io"
	case apierrors.IsForbidden(readErr):
		fix = "allow the operator's ServiceAccount to get clustertopologies.grove.io"
	}
	return &field.Error{Type: field.ErrorTypeInternal, Field: path.String(), BadValue: short(profile),
		Detail: fmt.Sprintf("failed to read ClusterTopology %q for topology validation: %s; %s", short(profile), readErr, fix)}
}

func unknownDomains(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	for _, ref := range domainRefs(dgd) {
		if levelIndex(topology, ref.domain) >= 0 {
			continue
		}
		errs = append(errs, badValue(field.ErrorTypeNotFound, ref.path, ref.domain,
			constraint.UnknownDomain(ref.field, short(ref.domain), short(topology.Name), domainNames(topology, 0))))
	}
	return errs
}

// broaderServices finds services that ask for a wider domain than the one all of the graph must sit in.
func broaderServices(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	limit := levelIndex(topology, dgd.Spec.TopologyConstraint.PackDomain)
	if limit < 0 {
		return nil
	}
	var errs field.ErrorList
	for _, s := range servicesOf(dgd) {
		if s.TopologyConstraint == nil {
			continue
		}
		domain := s.TopologyConstraint.PackDomain
		if index := levelIndex(topology, domain); index < 0 || index >= limit {
			continue
		}
		errs = append(errs, badValue(field.ErrorTypeInvalid, s.path.Child("topologyConstraint", "packDomain"), domain, fmt.Sprintf(
			"hierarchy violation: topologyConstraint.packDomain %q is broader than spec-level %q; service constraints must be equal to or "+
				"narrower than the deployment-level constraint; use one of [%s]",
			domain, dgd.Spec.TopologyConstraint.PackDomain, strings.Join(domainNames(topology, limit), ", "))))
	}
	return errs
}

// levelIndex is the position of a level, 0 being the broadest; -1 when there is none of that name, or no topology.
func levelIndex(topology *grovev1alpha1.ClusterTopology, domain string) int {
	if topology == nil || domain == "" {
		return -1
	}
	return slices.IndexFunc(topology.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == domain })
}

// domainNames lists the levels from an index on, from the broadest to the narrowest.
func domainNames(topology *grovev1alpha1.ClusterTopology, from int) []string {
	var names []string
	for _, level := range topology.Spec.Levels[from:] {
		names = append(names, level.Domain)
	}
	return names
}
