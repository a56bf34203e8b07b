// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
)

// domainPattern is the format of a topology level's name.
const domainPattern = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`

var (
	domainRegexp     = regexp.MustCompile(domainPattern)
	constraintPath   = specPath.Child("topologyConstraint")
	topologyNamePath = constraintPath.Child("clusterTopologyName")
)

// DomainsInUse lists the levels that the deployment's constraints name, sorted and without duplicates.
func DomainsInUse(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	if dgd == nil {
		return nil
	}
	var domains []string
	for _, ref := range domainRefs(dgd) {
		domains = append(domains, ref.domain)
	}
	slices.Sort(domains)
	return slices.Compact(domains)
}

// domainRef is a field of a deployment that names a level.
type domainRef struct {
	path   *field.Path
	field  string
	domain string
}

// domainRefs lists the fields that name levels: first the deployment's fields, then the components' fields, sorted by component name.
func domainRefs(dgd *nvidiav1beta1.DynamoGraphDeployment) []domainRef {
	var refs []domainRef
	add := func(path *field.Path, domains ...string) {
		for i, name := range domainFields {
			if domains[i] != "" {
				refs = append(refs, domainRef{path.Child(name), name, domains[i]})
			}
		}
	}
	if c := dgd.Spec.TopologyConstraint; c != nil {
		add(constraintPath, c.PackDomain, c.PreferredPackDomain, c.SpreadDomain, c.PreferredSpreadDomain)
	}
	for _, s := range componentsOf(dgd) {
		if c := s.TopologyConstraint; c != nil {
			add(s.path.Child("topologyConstraint"), c.PackDomain, c.PreferredPackDomain, c.SpreadDomain, c.PreferredSpreadDomain)
		}
	}
	return refs
}

// domainFields are the fields of a constraint that name a level.
var domainFields = []string{"packDomain", "preferredPackDomain", "spreadDomain", "preferredSpreadDomain"}

// topologyNamed requires every constraint to name a topology.
func topologyNamed(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	switch {
	case !constraint.Stated(dgd) || constraint.TopologyName(dgd) != "":
		return nil
	case !constraint.ByFields(dgd):
		return one(field.Required(annotationPath(constraint.AnnotationTopology), "name the ClusterTopology whose node label keys the placement "+
			"annotations use: "+constraint.AnnotationTopology+" is required with them"))
	case dgd.Spec.TopologyConstraint == nil:
		return one(field.Required(topologyNamePath, "%[1]s is required: spec.topologyConstraint with %[1]s is required when "+
			"any topology constraint is set (at spec or %[2]s level); name a ClusterTopology there", field.WordTopologyName, field.WordComponent))
	}
	return one(field.Required(topologyNamePath, "%s is required when any topology constraint is set; "+
		"name a ClusterTopology there", topologyNamePath))
}

// deploymentConstraint checks the deployment's own constraint. A topology alone packs nothing, so the deployment or a component must name a
// level.
func deploymentConstraint(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	c := dgd.Spec.TopologyConstraint
	if c == nil {
		return nil
	}
	errs := domainFormat(constraintPath, c.PackDomain, c.PreferredPackDomain, c.SpreadDomain, c.PreferredSpreadDomain)
	onComponent := slices.ContainsFunc(componentsOf(dgd), func(s component) bool { return s.TopologyConstraint != nil })
	if c.PackDomain+c.PreferredPackDomain+c.SpreadDomain+c.PreferredSpreadDomain == "" && !onComponent {
		errs = append(errs, field.Required(constraintPath.Child("packDomain"),
			"packDomain is required when no %[1]s topologyConstraint is set: name a level here or on a %[1]s", field.WordComponent))
	}
	return errs
}

func componentConstraint(s component) field.ErrorList {
	c := s.TopologyConstraint
	if c == nil {
		return nil
	}
	path := s.path.Child("topologyConstraint")
	errs := domainFormat(path, c.PackDomain, c.PreferredPackDomain, c.SpreadDomain, c.PreferredSpreadDomain)
	if own := s.alpha.TopologyConstraint; own != nil && own.TopologyProfile != "" {
		errs = append(errs, badValue(field.ErrorTypeForbidden, path.Child("topologyProfile"), own.TopologyProfile,
			"topologyProfile must not be set on a %s: it is inherited from %s; remove it here", field.WordComponent, topologyNamePath))
	}
	if c.PackDomain+c.PreferredPackDomain+c.SpreadDomain+c.PreferredSpreadDomain == "" {
		errs = append(errs, field.Required(path.Child("packDomain"),
			"%s is required: set packDomain or preferredPackDomain, or remove topologyConstraint", path.Child("packDomain")))
	}
	return errs
}

// domainFormat checks the format of the level names in a constraint.
func domainFormat(path *field.Path, domains ...string) field.ErrorList {
	var errs field.ErrorList
	for i, name := range domainFields {
		if value := domains[i]; value != "" && !validDomain(value) {
			errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child(name), value, notADomain(name, value)))
		}
	}
	return errs
}

func validDomain(domain string) bool {
	return len(domain) <= validation.DNS1123LabelMaxLength && domainRegexp.MatchString(domain)
}

func notADomain(name, value string) string {
	return fmt.Sprintf("%s %q is not a valid topology domain; must match %s and have at most %d characters",
		name, short(value), domainPattern, validation.DNS1123LabelMaxLength)
}
