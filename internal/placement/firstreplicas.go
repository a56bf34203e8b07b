// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// The head of a component is its first waiting replicas, as many as the component needs to run (MinAvailable, else one). A head is placed
// as a unit. In a graph with a graph domain, the heads of all components together form the base gang; otherwise each head is placed
// separately. A component with active replicas has no head: its lost replicas are placed one by one.

// first returns how many waiting replicas of the component are in the base gang.
func (s *component) first() int { return min(max(s.MinAvailable, 1), len(s.Waiting)) }

// head returns how many waiting replicas are placed together outside of a base gang; 1 means that each replica is placed separately.
func (s *component) head() int {
	n := s.first()
	anchored := func(r Replica) bool { return len(r.Anchor) > 0 }
	if s.Placed > 0 || slices.ContainsFunc(s.Waiting[:n], anchored) { // an interrupted release is completed replica by replica
		return 1
	}
	return n
}

// Together returns how many of the first waiting replicas are placed together or not at all. With base, these replicas are part of the base
// gang; otherwise they are a gang of their own. Waiting must be sorted by ordinal.
func (s *Component) Together(base bool) int {
	one := component{Component: *s}
	switch {
	case len(s.Waiting) == 0:
		return 0
	case base:
		return one.first()
	}
	return one.head()
}

// headGroup returns the group of a component's first n replicas, with the component's constraint.
func (a *attempt) headGroup(si, n int) *Group {
	if n == 1 {
		return a.gangOf(si, 0)
	}
	s := a.p.components[si]
	g := &Group{Name: s.Name, Required: topology.NoLevel, Preferred: topology.NoLevel, members: true}
	if s.one() {
		g.Required, g.Preferred, g.Within, g.near = s.Required, s.Preferred, a.unit[si], a.used[si]
		g.Hint = s.Waiting[0].Hint.Truncate(s.Required)
		for _, r := range s.Waiting[n:] {
			g.want = append(g.want, r.Pods)
		}
	}
	for ri := range n {
		replica := a.replicaGroup(si, ri)
		if s.one() {
			replica.Required, replica.Preferred, replica.Within = topology.NoLevel, topology.NoLevel, nil
		}
		g.Groups = append(g.Groups, a.spread(si, ri, replica))
	}
	return g
}

// settleHead records the places of a head's replicas, and calls note with the result of each replica.
func (a *attempt) settleHead(si int, u *unit, note func(*ReplicaResult)) {
	members := u.group.Groups
	if !u.group.members {
		a.settle(si, 0, u)
		note(&a.results[si][0])
		return
	}
	if s := a.p.components[si]; s.one() && len(a.unit[si]) == 0 {
		a.unit[si] = a.p.tree.Path(u.domain).Truncate(s.Required)
	}
	for _, sub := range u.subs {
		ri := slices.Index(members, sub.group)
		a.settle(si, ri, sub)
		note(&a.results[si][ri])
	}
}

// placeHead places the first n replicas of a component together, or refuses them and all replicas after them.
func (a *attempt) placeHead(si, n int) {
	t, s := a.p.tree, a.p.components[si]
	if a.p.gone(s.Required) {
		a.refuseHead(si, n, levelGone(s.Name, s.Required))
		return
	}
	if a.p.pairRequired(s) && !a.p.over() {
		a.refuseHead(si, n, a.pairRefusal(si, 0))
		return
	}
	g := a.headGroup(si, n)
	if a.p.over() {
		a.refuseHead(si, n, a.p.unplanned(g, max(s.Required, a.p.graph.Required)))
		return
	}
	outer := &Group{Name: g.Name, Required: topology.NoLevel, Preferred: topology.NoLevel, Groups: []*Group{g}}
	if a.p.graph.Preferred > t.LevelOf(a.bound) {
		outer.Preferred, outer.near = a.p.graph.Preferred, a.soft
		if len(a.soft) == 0 {
			outer.want = a.rest(si, n, false)
		}
	}
	u, search := prepare(t, outer), newSearch(a.p.cluster, t, a.p.options)
	if !search.place(u, a.bound) {
		a.refuseHead(si, n, search.refused(u.subs[0], a.bound))
		return
	}
	search.reserve(u)
	a.soften(u.domain)
	a.settleHead(si, u.subs[0], func(r *ReplicaResult) { r.Head = true })
}

// lacks reports whether the component cannot run without a waiting replica: the replica is needed to reach MinAvailable, or some of its
// pods are released.
func (s *component) lacks(ri int) bool {
	return ri < max(s.MinAvailable, 1)-s.Placed || len(s.Waiting[ri].Anchor) > 0
}

// placeLacking places the replicas without which components cannot run. It must run before other replicas can take the capacity.
func (a *attempt) placeLacking() {
	for si, s := range a.p.components {
		if n := s.head(); n > 1 {
			if a.open(si, 0) {
				a.placeHead(si, n)
			}
			continue
		}
		for ri := range s.now() {
			if s.lacks(ri) && a.open(si, ri) {
				a.placeReplica(si, ri)
			}
		}
	}
}

// refuseHead refuses the first n replicas of a component with the given refusal, and the component's other replicas because they wait for
// the head.
func (a *attempt) refuseHead(si, n int, r *Refusal) {
	for ri := range a.p.components[si].Waiting {
		if ri < n {
			a.refuse(si, ri, r)
			a.results[si][ri].Head = true
			continue
		}
		a.refuse(si, ri, &Refusal{Code: CodeBaseGangWaits, Gang: r.Gang, Level: r.Level, LevelName: r.LevelName, Need: r.Need, Cause: r})
	}
}

// preemptHead preempts pods for the first n replicas of a component.
func (p *planner) preemptHead(a *attempt, si, n int) {
	if p.pairRequired(p.components[si]) {
		p.preemptPairedHead(a, si)
		return
	}
	g, bound := a.headGroup(si, n), a.bound
	if bound == topology.Nowhere {
		bound = topology.Root
	}
	freed := p.freeCapacity(g, max(g.Required, p.graph.Required), bound)
	if freed == nil {
		return
	}
	freed.reserve(p)
	a.settleHead(si, freed.unit, func(r *ReplicaResult) { r.Refusal, r.Preempts = nil, freed.cost.preemption() })
}
