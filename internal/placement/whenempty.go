// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// emptyTries is how many domains are tried by WhenEmpty.
const emptyTries = 64

// WhenEmpty names the domain that a graph's first refused gang would fit into if nothing else ran there: of those that would do, the one
// that holds most of the gang today. It is meant for keeping that domain for a gang which small ones would starve. It returns false when
// no domain would do, even empty, and for gangs that need no single domain. The cluster is left as it was.
func WhenEmpty(c *topology.Cluster, g Graph, r *Result, o Options) (topology.Path, bool) {
	p := newPlanner(c, g, o)
	group, level, bound := p.firstRefused(r)
	if group == nil || level == topology.NoLevel {
		return nil, false
	}
	withoutPreference(group)
	u := prepare(p.tree, group)
	if u.gone || u.within != topology.Nowhere && u.required <= p.tree.LevelOf(u.within) {
		return nil, false // it is tied to one domain, which nobody else can be kept out of
	}
	for i, d := range p.nearest(u, level, bound) {
		if i == emptyTries {
			break
		}
		if p.fitsEmpty(group, d) {
			return p.tree.Path(d), true
		}
	}
	return nil, false
}

// firstRefused returns the first gang that a plan had no room for, the level whose one domain must hold it, and what bounds it.
func (p *planner) firstRefused(r *Result) (*Group, int, topology.DomainID) {
	a := newAttempt(p, topology.Root)
	bound := topology.Root
	if len(p.graph.Anchor) > 0 {
		d, found := p.tree.Find(p.graph.Anchor)
		if !found {
			return nil, 0, 0
		}
		bound = d
	}
	for _, one := range r.Replicas {
		if one.Refusal == nil || one.Refusal.Code != CodeInsufficientCapacity {
			continue
		}
		if one.Base {
			return a.baseGroup(), p.graph.Required, bound
		}
		for si, s := range p.services {
			for ri := range s.Waiting {
				if s.Name == one.Service && s.Waiting[ri].Ordinal == one.Ordinal && !p.gone(s.Required) {
					level := max(s.Required, p.graph.Required)
					if level <= p.tree.LevelOf(bound) {
						level = topology.NoLevel
					}
					return a.replicaGroup(si, ri), level, bound
				}
			}
		}
	}
	return nil, 0, 0
}

func (p *planner) fitsEmpty(g *Group, d topology.DomainID) bool {
	p.cluster.Begin()
	defer p.cluster.Rollback()
	p.tree.AllNodes(d, func(n topology.NodeID) bool {
		p.cluster.Clear(n)
		return true
	})
	s := newSearch(p.cluster, p.tree, p.options)
	s.steps = min(s.steps, preemptBudget)
	found := s.place(prepare(p.tree, g), d)
	s.giveBack(0)
	return found
}
