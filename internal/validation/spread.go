// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
)

// spreadField is a field of a constraint that spreads replicas.
type spreadField struct {
	name, domain string
}

func spreadFields(spread constraint.Domains) []spreadField {
	return []spreadField{{"spreadDomain", spread.Required}, {"preferredSpreadDomain", spread.Preferred}}
}

// misplacedSpread refuses levels over which replicas cannot be spread. At such a level, the graph or the component is packed into one
// domain, or one replica may span several domains (docs/placement.md#spreading-replicas). The deployment's spread level is only a default
// for its components, so it need not suit every component.
func misplacedSpread(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	whole := dgd.Spec.TopologyConstraint
	graph := levelIndex(topology, whole.PackDomain)
	for _, f := range spreadFields(constraint.Domains{Required: whole.SpreadDomain, Preferred: whole.PreferredSpreadDomain}) {
		if constraint.SpreadProblem(levelIndex(topology, f.domain), graph, -1, false) == constraint.SpreadOfOne {
			errs = append(errs, spreadOfOne(constraintPath, f, whole.PackDomain, domainNames(topology, graph+1)))
		}
	}
	for _, s := range componentsOf(dgd) {
		own := s.TopologyConstraint
		if own == nil {
			continue
		}
		path, packed := s.path.Child("topologyConstraint"), levelIndex(topology, own.PackDomain)
		if packed >= 0 && packed < graph {
			continue // refused by another rule
		}
		for _, f := range spreadFields(constraint.Domains{Required: own.SpreadDomain, Preferred: own.PreferredSpreadDomain}) {
			switch constraint.SpreadProblem(levelIndex(topology, f.domain), graph, packed, s.multinode()) {
			case constraint.SpreadOfOne:
				errs = append(errs, spreadOfOne(path, f, whole.PackDomain, domainNames(topology, graph+1)))
			case constraint.SpreadOfPacked:
				errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child(f.name), f.domain,
					"hierarchy violation: all replicas of a single-node %s are in one domain of packDomain %q; %s",
					field.WordComponent, own.PackDomain, useNarrower(domainNames(topology, packed+1))))
			case constraint.SpreadInReplica:
				errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child(f.name), f.domain,
					"hierarchy violation: it is narrower than packDomain %q, so one replica may be in several of its domains; %s",
					own.PackDomain, useBroader(domainNames(topology, graph+1)[:packed-graph])))
			}
		}
	}
	return errs
}

func spreadOfOne(path *field.Path, f spreadField, packed string, narrower []string) *field.Error {
	return badValue(field.ErrorTypeInvalid, path.Child(f.name), f.domain,
		"hierarchy violation: all pods are in one domain of the spec-level packDomain %q; %s", packed, useNarrower(narrower))
}

func useNarrower(levels []string) string {
	if len(levels) == 0 {
		return "the topology has no narrower level: remove it, or pack into a broader level"
	}
	return "use a narrower level to spread replicas: one of [" + strings.Join(levels, ", ") + "]"
}

func useBroader(levels []string) string {
	if len(levels) == 0 {
		return "set packDomain to this level or a narrower one, or remove it"
	}
	return "use packDomain or a broader level: one of [" + strings.Join(levels, ", ") + "]"
}

// spreadWithoutEffect warns about a preferred spread level that is not narrower than the required level, and about a default spread of the
// deployment that does not suit a component.
func spreadWithoutEffect(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	whole := dgd.Spec.TopologyConstraint
	if whole == nil {
		return nil
	}
	var lines []field.Text
	say := func(path *field.Path, spread constraint.Domains) {
		if spread.Required != "" && spread.Preferred != "" && !narrower(topology, spread.Preferred, spread.Required) {
			lines = append(lines, line(field.Say("%s %q has no effect: it is not narrower than spreadDomain %q",
				path.Child("preferredSpreadDomain"), short(spread.Preferred), short(spread.Required)), nil))
		}
	}
	say(constraintPath, constraint.Domains{Required: whole.SpreadDomain, Preferred: whole.PreferredSpreadDomain})
	var unsuited []string
	for _, s := range componentsOf(dgd.DynamoGraphDeployment) {
		spread, inherited := constraint.SpreadOf(dgd.DynamoGraphDeployment, s.ComponentSpec)
		if !inherited {
			say(s.path.Child("topologyConstraint"), spread)
			continue
		}
		if s.TopologyConstraint != nil && topology != nil && unsuitedSpread(topology, spread, whole.PackDomain, s) {
			unsuited = append(unsuited, short(s.name))
		}
	}
	if len(unsuited) > 0 {
		lines = append(lines, line(field.Say("the spread of %s has no effect on %s whose packDomain it does not suit; set spreadDomain there",
			constraintPath, field.WordComponents), unsuited))
	}
	return lines
}

// unsuitedSpread reports whether the packDomain of a component prevents the deployment's spread.
func unsuitedSpread(topology *grovev1alpha1.ClusterTopology, spread constraint.Domains, graph string, s component) bool {
	for _, f := range spreadFields(spread) {
		problem := constraint.SpreadProblem(levelIndex(topology, f.domain), levelIndex(topology, graph), levelIndex(topology,
			s.TopologyConstraint.PackDomain), s.multinode())
		if problem == constraint.SpreadOfPacked || problem == constraint.SpreadInReplica {
			return true
		}
	}
	return false
}
