// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// placeOf returns the component's own topology, which may have no levels; nil if it equals the graph's topology. In a graph without a
// stated constraint, components may have different default topologies.
func (r *Request) placeOf(t *trellisv1alpha1.ResolvedTopology) *placement.Place {
	var selector map[string]string
	if t != nil {
		selector = t.NodeSelector
	}
	levels := LevelsOf(t)
	if slices.Equal(levels, r.Graph.Levels) && maps.Equal(selector, r.Graph.NodeSelector) {
		return nil
	}
	return &placement.Place{Levels: levels, NodeSelector: selector}
}

// spreadOf returns the levels over which the replicas of a component are spread, and the domains of the replicas that stay; nil when they
// are not spread. It omits a replica that is being recreated, because this replica counts in its next domain. It also omits a partly
// released replica, because the planner counts it.
func spreadOf(t *trellisv1alpha1.ResolvedTopology, states []replicaState) *placement.Spread {
	if !constraint.Spread(t) {
		return nil
	}
	spread := &placement.Spread{Required: LevelsOf(t).Index(t.SpreadDomain), Preferred: LevelsOf(t).Index(t.PreferredSpreadDomain)}
	for _, state := range states {
		if len(state.open) > 0 && len(state.closed) == 0 && state.absent == 0 && !state.replaced() {
			spread.At = append(spread.At, state.path)
		}
	}
	return spread
}
