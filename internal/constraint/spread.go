// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// SpreadOf returns the domains over which the replicas of a component are spread. The component states them, or else the deployment;
// inherited is true if the deployment states them.
func SpreadOf(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) (spread Domains, inherited bool) {
	if own := c.TopologyConstraint; own != nil && (own.SpreadDomain != "" || own.PreferredSpreadDomain != "") {
		return Domains{own.SpreadDomain, own.PreferredSpreadDomain}, false
	}
	if whole := dgd.Spec.TopologyConstraint; whole != nil {
		return Domains{whole.SpreadDomain, whole.PreferredSpreadDomain}, true
	}
	return Domains{}, false
}

// Spread reports whether the replicas of a component are spread.
func Spread(t *trellisv1alpha1.ResolvedTopology) bool {
	return t != nil && (t.SpreadDomain != "" || t.PreferredSpreadDomain != "")
}

// spread sets the levels over which a component's replicas are spread. It omits a level over which they cannot be spread.
func spread(t *trellisv1alpha1.ResolvedTopology, dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) {
	_, multinode := c.PodsPerReplica()
	stated, _ := SpreadOf(dgd, c)
	packed := [2]int{level(t, t.GraphPackDomain), level(t, t.PackDomain)}
	if SpreadProblem(level(t, stated.Required), packed[0], packed[1], multinode) == SpreadFits {
		t.SpreadDomain = stated.Required
	}
	if SpreadProblem(level(t, stated.Preferred), packed[0], packed[1], multinode) == SpreadFits {
		t.PreferredSpreadDomain = narrower(t, stated.Preferred, t.SpreadDomain)
	}
}

// level returns the index of a domain among the levels; -1 for none.
func level(t *trellisv1alpha1.ResolvedTopology, domain string) int {
	if domain == "" {
		return -1
	}
	return Level(t, domain)
}

// Misfit is the reason why replicas cannot be spread over a level.
type Misfit int

// Reasons for a misfit (docs/placement.md#spreading-replicas).
const (
	// SpreadFits: the replicas can be spread.
	SpreadFits Misfit = iota
	// SpreadNowhere: the level does not exist.
	SpreadNowhere
	// SpreadOfOne: all pods of the deployment are in one domain of the level.
	SpreadOfOne
	// SpreadOfPacked: all replicas of a single-node component are in one domain of the level.
	SpreadOfPacked
	// SpreadInReplica: a replica of a multinode component may have pods in several domains of the level.
	SpreadInReplica
)

// SpreadProblem compares a spread level with the levels that the deployment and the component require for packing. Levels are given by
// index: 0 is the broadest, negative means none.
func SpreadProblem(spread, graph, component int, multinode bool) Misfit {
	switch {
	case spread < 0:
		return SpreadNowhere
	case graph >= spread:
		return SpreadOfOne
	case component >= 0 && multinode && component < spread:
		return SpreadInReplica
	case component >= spread && !multinode:
		return SpreadOfPacked
	}
	return SpreadFits
}
