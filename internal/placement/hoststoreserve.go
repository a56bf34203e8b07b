// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// emptyTries is how many domains WhenEmpty tries.
const emptyTries = 64

// EmptyHosts are hosts on which a gang fits once the pods that run there have ended.
type EmptyHosts struct {
	// Domain is the domain of the required level that holds the gang.
	Domain topology.Path
	// Hosts are the hosts of the domain that the gang needs, sorted by name.
	Hosts []string
}

// WhenEmpty finds hosts on which a graph's first refused gang fits if nothing else runs there. The caller reserves them for a gang that
// small gangs would starve. WhenEmpty returns only as many hosts as the gang needs, preferring hosts with few pods. Of the suitable domains
// it takes the one that holds most of the gang today; with a path in, it tries that domain alone.
//
// It returns nil when no domain is suitable even when empty, when each needs more than most hosts, and for gangs that need no single
// domain. In the second case needs is the smallest number of hosts found; else it is 0. The cluster is left unchanged.
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

// firstRefused returns the first gang refused for lack of capacity, the level whose domain must hold it, and the domain around it.
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

// alone returns the group of a refused replica, with its partner where it needs one, and the level of the domain that must hold it.
func (a *attempt) alone(si, ri, level int) (*Group, int) {
	s := a.p.components[si]
	if !a.p.pairRequired(s) || len(s.Waiting[ri].Anchor) > 0 {
		return a.gangOf(si, ri), level
	}
	g, _ := a.pairedGroup(si, ri)
	return g, max(level, g.Required)
}

// hostsWhenEmpty returns the hosts that a group needs in a domain, nil when it does not fit into the empty domain. It empties the hosts
// with the fewest pods first, as few as possible for at most most hosts. The result is longer than most when the group needs more hosts.
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

// packOnEmpty packs a group into a domain with the given nodes emptied, and returns the names of its hosts; nil when it does not fit.
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
