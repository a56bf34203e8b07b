// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// emptyTries is the maximum number of domains that WhenEmpty tries.
const emptyTries = 64

// EmptyHosts lists hosts on which a gang fits once the pods that run there have ended.
type EmptyHosts struct {
	// Domain is the domain of the required level that holds the gang.
	Domain topology.Path
	// Hosts are the hosts of the domain that the gang needs, sorted by name.
	Hosts []string
}

// WhenEmpty finds hosts on which a graph's first refused gang fits if nothing else runs there. The caller reserves these hosts for a gang
// that small gangs would otherwise starve. WhenEmpty returns only as many hosts as the gang needs, and prefers hosts with few pods. It
// tries the domains that currently hold most of the gang first. If in is not empty, it tries only the domain in.
//
// The result empty is nil if no gang was refused for lack of capacity, if the gang needs no single domain or is already tied to one, if no
// domain could hold the gang even when empty, or if the gang needs more hosts than the limit most in every domain. In the last case, needs
// is the smallest number of hosts that the gang needs; otherwise needs is 0. WhenEmpty leaves the cluster unchanged.
func WhenEmpty(c *topology.Cluster, g Demand, r *Result, in topology.Path, most int, o Options) (empty *EmptyHosts, needs int) {
	p := newPlanner(c, g, o)
	defer p.bind()()
	group, level, bound := p.firstRefused(r)
	if group == nil || level == topology.NoLevel {
		return nil, 0
	}
	withoutPreference(group)
	u := prepare(p.tree, group)
	if u.gone || u.within != topology.Nowhere && u.required <= p.tree.LevelOf(u.within) {
		return nil, 0 // its only domain cannot be reserved against its own graph
	}
	list := p.nearest(u, level, bound)
	if len(in) > 0 {
		list = slices.DeleteFunc(list, func(d topology.DomainID) bool { return !p.tree.Path(d).Equal(in) })
	}
	for _, d := range list[:min(emptyTries, len(list))] {
		if p.over() {
			break
		}
		hosts := p.hostsWhenEmpty(group, d, most)
		if 0 < len(hosts) && len(hosts) <= most {
			return &EmptyHosts{Domain: p.tree.Path(d), Hosts: hosts}, 0
		}
		if len(hosts) > 0 && (needs == 0 || len(hosts) < needs) {
			needs = len(hosts)
		}
	}
	return nil, needs
}

// firstRefused returns the first gang refused for lack of capacity, the level whose domain must hold it, and the enclosing domain.
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
		for si, s := range p.components {
			for ri := range s.Waiting {
				if s.Name == one.Component && s.Waiting[ri].Ordinal == one.Ordinal && !p.gone(s.Required) {
					level := max(s.Required, p.graph.Required)
					if level <= p.tree.LevelOf(bound) {
						level = topology.NoLevel
					}
					if one.Head {
						return a.headGroup(si, s.first()), level, bound
					}
					g, level := a.alone(si, ri, level)
					return g, level, bound
				}
			}
		}
	}
	return nil, 0, 0
}

// alone returns the group of a refused replica, and the level whose domain must hold the group. If the replica requires a partner, alone
// returns the group from pairedGroup.
func (a *attempt) alone(si, ri, level int) (*Group, int) {
	s := a.p.components[si]
	if !a.p.pairRequired(s) || len(s.Waiting[ri].Anchor) > 0 {
		return a.gangOf(si, ri), level
	}
	g, _ := a.pairedGroup(si, ri)
	return g, max(level, g.Required)
}

// hostsWhenEmpty returns the hosts that a group needs in a domain; nil when the group does not fit even into the empty domain. It empties
// the hosts with the fewest pods first, and stops when the group fits on at most the given number of hosts. If the group needs more hosts
// even in the empty domain, it returns these hosts.
func (p *planner) hostsWhenEmpty(g *Group, d topology.DomainID, most int) []string {
	var nodes []topology.NodeID
	p.tree.AllNodes(d, func(n topology.NodeID) bool {
		nodes = append(nodes, n)
		return true
	})
	slices.SortStableFunc(nodes, func(a, b topology.NodeID) int { return cmp.Compare(p.cluster.Load(a), p.cluster.Load(b)) })
	best := p.packOnEmpty(g, d, nodes)
	if len(best) == 0 || len(best) > most {
		return best
	}
	low, high := 0, len(nodes) // emptying high nodes is known to be sufficient
	for k := max(len(best), 1); k < len(nodes); k *= 2 {
		if hosts := p.packOnEmpty(g, d, nodes[:k]); 0 < len(hosts) && len(hosts) <= most {
			best, high = hosts, k
			break
		}
		low = k
	}
	for low+1 < high {
		k := (low + high) / 2
		if hosts := p.packOnEmpty(g, d, nodes[:k]); 0 < len(hosts) && len(hosts) <= most {
			best, high = hosts, k
		} else {
			low = k
		}
	}
	return best
}

// packOnEmpty packs a group into a domain after it empties the given nodes, and returns the names of the group's hosts; nil when the group
// does not fit.
func (p *planner) packOnEmpty(g *Group, d topology.DomainID, empty []topology.NodeID) (hosts []string) {
	p.cluster.Begin()
	defer p.cluster.Rollback()
	for _, n := range empty {
		p.cluster.Clear(n)
	}
	s := newSearch(p.cluster, p.tree, p.options)
	s.steps = min(s.steps, preemptBudget)
	if s.place(prepare(p.tree, g), d) {
		for _, t := range s.taken {
			hosts = append(hosts, p.cluster.NodeName(t.node))
		}
	}
	s.giveBack(0)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
