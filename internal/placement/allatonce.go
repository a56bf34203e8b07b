// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// placeWhole tries to place all waiting replicas of the graph in one search. Step-by-step placement may choose the same domain for two
// single-node components that each need one domain, although the domain is too small for the later replicas of both components. If not
// everything fits, placeWhole places nothing, and the caller places the replicas step by step.
func (a *attempt) placeWhole(base bool) bool {
	if !a.p.entangled() {
		return false
	}
	g, members := a.wholeGroup()
	search := newSearch(a.p.cluster, a.p.tree, a.p.options)
	search.steps /= 4 // placing step by step may succeed where this search fails
	u := prepare(a.p.tree, g)
	if !search.place(u, a.bound) {
		return false
	}
	search.reserve(u)
	a.soften(u.domain)
	for _, sub := range u.subs {
		member := members[slices.IndexFunc(members, func(m wholeMember) bool { return m.group == sub.group })]
		if !a.p.components[member.component].one() {
			a.settle(member.component, member.replica, sub)
			continue
		}
		a.unit[member.component] = a.p.tree.Path(sub.domain).Truncate(a.p.components[member.component].Required)
		for _, replica := range sub.subs {
			a.settle(member.component, slices.Index(sub.group.Groups, replica.group), replica)
		}
	}
	for si, s := range a.p.components {
		for ri := range s.first() {
			a.results[si][ri].Base = base
		}
		for ri := range s.head() {
			a.results[si][ri].Head = !base && s.head() > 1
		}
	}
	return true
}

// entangled reports whether the domain chosen for one component may leave too little capacity for another component. This requires several
// waiting components, at least one component with several replicas that must share a domain, and no replica that is tied to a domain.
func (p *planner) entangled() bool {
	if len(p.components) < 2 || p.tied() || p.over() {
		return false
	}
	open := false
	for _, s := range p.components {
		if p.gone(s.Required) || p.pairRequired(s) {
			return false
		}
		open = open || s.one() && len(s.Waiting) > 1
	}
	return open
}

// wholeMember maps a subgroup of wholeGroup's group to its component, and to the index in Waiting of its replica if it holds only one.
type wholeMember struct {
	group              *Group
	component, replica int
}

// wholeGroup returns one group with all waiting replicas. A component whose replicas share a domain is one subgroup; every other replica is
// a subgroup of its own.
func (a *attempt) wholeGroup() (*Group, []wholeMember) {
	g := &Group{Name: "graph", Required: topology.NoLevel, Preferred: a.p.graph.Preferred}
	var members []wholeMember
	for si, s := range a.p.components {
		if !s.one() {
			for ri := range s.Waiting {
				members = append(members, wholeMember{a.spread(si, ri, a.replicaGroup(si, ri)), si, ri})
			}
			continue
		}
		unit := &Group{Name: s.Name, Required: s.Required, Preferred: s.Preferred, Hint: s.Waiting[0].Hint.Truncate(s.Required), near: a.used[si]}
		for ri := range s.Waiting {
			replica := a.replicaGroup(si, ri)
			replica.Required, replica.Preferred = topology.NoLevel, topology.NoLevel
			unit.Groups = append(unit.Groups, a.spread(si, ri, replica))
		}
		members = append(members, wholeMember{unit, si, 0})
	}
	for _, m := range members {
		g.Groups = append(g.Groups, m.group)
	}
	return g, members
}
