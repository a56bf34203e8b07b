// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Place is a tree of domains: its levels, and the node selector that limits its nodes.
type Place struct {
	Levels       topology.Levels
	NodeSelector map[string]string
}

// PlaceOf returns the tree in which a component of the demand is placed.
func (g *Demand) PlaceOf(component string) Place {
	for i := range g.Components {
		if s := &g.Components[i]; s.Name == component && s.Place != nil {
			return *s.Place
		}
	}
	return Place{g.Levels, g.NodeSelector}
}

// Labels returns the labels that identify the nodes of a domain in this place: the whole path, and the node selector. Another place may
// have a domain with the same path.
func (p Place) Labels(domain topology.Path) map[string]string {
	return p.Levels.Labels(domain, p.NodeSelector)
}

func (p *Place) equal(o *Place) bool {
	return slices.Equal(p.Levels, o.Levels) && maps.Equal(p.NodeSelector, o.NodeSelector)
}

// mixed reports whether components are placed in several trees.
func (g *Demand) mixed() bool {
	for i := range g.Components {
		if g.Components[i].Place != nil {
			return true
		}
	}
	return false
}

// parts splits the demand into one demand per tree, sorted by the name of their first component. The parts are planned independently.
func (g *Demand) parts() []Demand {
	components := slices.SortedFunc(slices.Values(g.Components), func(a, b Component) int { return strings.Compare(a.Name, b.Name) })
	var out []Demand
	var places []Place
	for _, s := range components {
		place := g.PlaceOf(s.Name)
		s.Place = nil
		at := slices.IndexFunc(places, func(o Place) bool { return o.equal(&place) })
		if at < 0 {
			part := *g
			part.Levels, part.NodeSelector, part.Components = place.Levels, place.NodeSelector, nil
			if !place.equal(&Place{g.Levels, g.NodeSelector}) {
				part.Pairing = nil
			}
			at, places, out = len(out), append(places, place), append(out, part)
		}
		out[at].Components = append(out[at].Components, s)
	}
	return out
}

// planParts plans a demand whose components are placed in several trees.
func planParts(c *topology.Cluster, g Demand, o Options) Result {
	whole := Result{Score: Unscored}
	for _, part := range g.parts() {
		one := PlanGraph(c, part, o)
		whole.Replicas = append(whole.Replicas, one.Replicas...)
		if one.Score != Unscored && (whole.Score == Unscored || one.Score < whole.Score) {
			whole.Score = one.Score
		}
	}
	slices.SortStableFunc(whole.Replicas, func(a, b ReplicaResult) int {
		return cmp.Or(strings.Compare(a.Component, b.Component), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return whole
}
