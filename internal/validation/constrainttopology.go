// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
)

// GraphTopology checks a new deployment against the ClusterTopology that it names; topology is nil if this ClusterTopology does not exist.
// It is called on create only. If a level disappears later, a condition reports it, and updates remain possible.
func GraphTopology(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	name := constraint.TopologyName(dgd)
	switch {
	case name == "":
		return nil
	case topology == nil:
		return one(badValue(field.ErrorTypeNotFound, topologyNamePathOf(dgd), name, constraint.NotFound(short(name))))
	}
	if !constraint.ByFields(dgd) {
		return unknownKeys(dgd, topology)
	}
	errs := unknownDomains(dgd, topology)
	errs = append(errs, broaderComponents(dgd, topology)...)
	errs = append(errs, misplacedSpread(dgd, topology)...)
	if len(distinctOnHost(dgd, nil)) > 0 { // another rule has already refused it, by the name of the level
		return errs
	}
	return append(errs, distinctOnHost(dgd, topology)...)
}

// topologyNamePathOf returns the path of the field or annotation with which the deployment names its topology.
func topologyNamePathOf(dgd *nvidiav1beta1.DynamoGraphDeployment) *field.Path {
	if constraint.ByFields(dgd) {
		return topologyNamePath
	}
	return annotationPath(constraint.AnnotationTopology)
}

func unknownDomains(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	for _, ref := range domainRefs(dgd) {
		if levelIndex(topology, ref.domain) >= 0 {
			continue
		}
		errs = append(errs, badValue(field.ErrorTypeNotFound, ref.path, ref.domain,
			constraint.UnknownDomain(ref.field, short(ref.domain), topology.Source(), short(topology.Name), domainNames(topology, 0))))
	}
	return errs
}

// broaderComponents refuses components whose packDomain is broader than the deployment's packDomain.
func broaderComponents(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	limit := levelIndex(topology, dgd.Spec.TopologyConstraint.PackDomain)
	if limit < 0 {
		return nil
	}
	var errs field.ErrorList
	for _, s := range componentsOf(dgd) {
		if s.TopologyConstraint == nil {
			continue
		}
		domain := s.TopologyConstraint.PackDomain
		if index := levelIndex(topology, domain); index < 0 || index >= limit {
			continue
		}
		errs = append(errs, badValue(field.ErrorTypeInvalid, s.path.Child("topologyConstraint", "packDomain"), domain,
			"hierarchy violation: topologyConstraint.packDomain %q is broader than spec-level %q; %s constraints must be equal to or "+
				"narrower than the deployment-level constraint; use one of [%s]",
			domain, dgd.Spec.TopologyConstraint.PackDomain, field.WordComponent, strings.Join(domainNames(topology, limit), ", ")))
	}
	return errs
}

// levelIndex returns the index of a level, 0 for the broadest level; -1 if the topology is nil or does not have this level.
func levelIndex(topology *grovev1alpha1.ClusterTopology, domain string) int {
	if topology == nil || domain == "" {
		return -1
	}
	return slices.IndexFunc(topology.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == domain })
}

// domainNames lists the names of the levels from the given index to the narrowest level.
func domainNames(topology *grovev1alpha1.ClusterTopology, from int) []string {
	var names []string
	for _, level := range topology.Spec.Levels[from:] {
		names = append(names, level.Domain)
	}
	return names
}

// preferredWithoutEffect warns about a preferred level that is not narrower than the required level. Without a topology, it can detect only
// equal names.
func preferredWithoutEffect(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	var lines []field.Text
	say := func(path *field.Path, preferred, required string) {
		if preferred == "" || required == "" || narrower(topology, preferred, required) {
			return
		}
		lines = append(lines, line(field.Say("%s %q has no effect: it is not narrower than the required packDomain %q",
			path.Child("preferredPackDomain"), short(preferred), short(required)), nil))
	}
	required := ""
	if c := dgd.Spec.TopologyConstraint; c != nil {
		required = c.PackDomain
		say(constraintPath, c.PreferredPackDomain, required)
	}
	for _, s := range componentsOf(dgd.DynamoGraphDeployment) {
		if c := s.TopologyConstraint; c != nil {
			say(s.path.Child("topologyConstraint"), c.PreferredPackDomain, narrowest(topology, c.PackDomain, required))
		}
	}
	return lines
}

// narrower reports whether level a is narrower than level b. If the topology is nil or lacks one of the levels, it returns true unless the
// names are equal.
func narrower(topology *grovev1alpha1.ClusterTopology, a, b string) bool {
	if a == b {
		return false
	}
	i, j := levelIndex(topology, a), levelIndex(topology, b)
	return i < 0 || j < 0 || i > j
}

// narrowest returns the level that packs a component's pods: the narrower of the component's own level and the level inherited from the
// deployment. If the topology does not have both levels, the component's own level takes precedence, if it is set.
func narrowest(topology *grovev1alpha1.ClusterTopology, own, inherited string) string {
	if own == "" || (inherited != "" && !narrower(topology, own, inherited)) {
		return inherited
	}
	return own
}
