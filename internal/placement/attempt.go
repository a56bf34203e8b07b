// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strconv"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// attempt is one try to place a graph inside a domain; some replicas may be refused.
type attempt struct {
	p     *planner
	bound topology.DomainID
	// results are indexed by component and waiting replica.
	results [][]ReplicaResult
	placed  int
	// soft lists the domains that were chosen for the graph's preferred level. used lists, by component, the domains in use. unit is, by
	// component, the domain that all replicas of a single-node component share.
	soft []topology.Path
	used [][]topology.Path
	unit []topology.Path
	// spreads are the levels over which each component is spread.
	spreads [][]*spreading
	// pairs counts the replicas of both roles by domain. order determines when replicas with roles are placed. pairsLater lists the planned
	// places of replicas that must not be placed yet.
	pairs      pairs
	order      pairOrder
	pairsLater []pairPlace
}

func newAttempt(p *planner, bound topology.DomainID) *attempt {
	a := &attempt{p: p, bound: bound}
	a.results = make([][]ReplicaResult, len(p.components))
	a.used = make([][]topology.Path, len(p.components))
	a.unit = make([]topology.Path, len(p.components))
	a.spreads = make([][]*spreading, len(p.components))
	a.pairs = p.pairsOf()
	for si, s := range p.components {
		a.results[si] = make([]ReplicaResult, len(s.Waiting))
		a.used[si] = slices.Clone(s.InUse)
		a.unit[si] = s.Anchor
		a.spreads[si] = p.spreadings(si, s)
		for _, path := range s.InUse {
			a.soft = addPath(a.soft, path)
		}
		for ri := range s.Waiting {
			a.results[si][ri] = ReplicaResult{Component: s.Name, Ordinal: s.Waiting[ri].Ordinal}
		}
	}
	return a
}

// attempt places the waiting replicas that fit inside one domain. It first tries to place all of them at once. If this fails, it places the
// base gang if base is set, else the replicas without which components cannot run. It then places every other replica as a gang of its own,
// in component and ordinal order. It places the base gang with the shared search, whose step budget other attempts use too.
func (p *planner) attempt(bound topology.DomainID, base bool, shared *search) *attempt {
	if p.pairing != nil && slices.ContainsFunc(p.components, p.pairable) {
		return p.attemptPaired(bound, base, shared)
	}
	a := newAttempt(p, bound)
	if a.placeWhole(base) {
		return a
	}
	if base && !a.placeBase(shared, anyComponent) {
		return a
	}
	if !base {
		a.placeLacking()
	}
	a.placeOthers()
	a.again()
	a.placeLater()
	return a
}

// placeOthers places every replica that has no result yet.
func (a *attempt) placeOthers() {
	for si, s := range a.p.components {
		for ri := range s.now() {
			if a.open(si, ri) {
				a.placeReplica(si, ri)
			}
		}
	}
}

// open reports whether a replica still needs a result. It returns false for a replica with a role that is placed after all others.
func (a *attempt) open(si, ri int) bool {
	r := &a.results[si][ri]
	return r.Refusal == nil && len(r.Pods) == 0 && !a.later(si)
}

// rest lists the pods of each replica of component si from the given position on, and of each replica of the later components. With base,
// it omits the replicas of the later components that are in the base gang.
func (a *attempt) rest(si, position int, base bool) [][]Pod {
	var replicas [][]Pod
	for i := si; i < len(a.p.components); i++ {
		from := 0
		if i == si {
			from = position
		} else if base {
			from = a.p.components[i].first()
		}
		for _, r := range a.p.components[i].Waiting[from:] {
			replicas = append(replicas, r.Pods)
		}
	}
	return replicas
}

// replicaGroup returns the group of one replica, with the constraint of its component.
func (a *attempt) replicaGroup(si, ri int) *Group {
	s := a.p.components[si]
	r := &s.Waiting[ri]
	g := &Group{
		Name: s.Name + "-" + strconv.Itoa(r.Ordinal), Required: s.Required, Preferred: s.Preferred,
		Hint: r.Hint, Within: r.Anchor, Apart: s.Apart, On: r.On, Pods: r.Pods, near: a.used[si],
	}
	if s.one() && len(r.Anchor) == 0 {
		g.Within = a.unit[si]
	}
	return g
}

// gangOf returns the group of one replica that is placed as a gang of its own.
func (a *attempt) gangOf(si, ri int) *Group { return a.ahead(si, ri, a.replicaGroup(si, ri)) }

// ahead adds to a replica's group the later replicas that must share its domain, and the groups for the levels over which the component is
// spread.
func (a *attempt) ahead(si, ri int, g *Group) *Group {
	s := a.p.components[si]
	if s.one() && len(g.Within) == 0 {
		for i := ri + 1; i < len(s.Waiting); i++ {
			g.want = append(g.want, s.Waiting[i].Pods)
		}
	}
	return a.spread(si, ri, g)
}

// placeReplica places one replica as a gang of its own.
func (a *attempt) placeReplica(si, ri int) {
	s, t := a.p.components[si], a.p.tree
	g := a.replicaGroup(si, ri)
	if a.p.gone(s.Required) && len(g.Within) == 0 {
		a.refuse(si, ri, levelGone(g.Name, s.Required))
		return
	}
	if r := a.refusedBefore(si, ri); r != nil {
		a.refuse(si, ri, r)
		return
	}
	if a.p.over() {
		a.refuse(si, ri, a.p.unplanned(g, max(s.Required, a.p.graph.Required)))
		return
	}
	if a.p.pairRequired(s) && len(s.Waiting[ri].Anchor) == 0 {
		a.placeRequired(si, ri)
		return
	}
	anchored := len(g.Within) > 0
	if g = a.ahead(si, ri, g); a.p.gone(s.Required) {
		g.Required = topology.NoLevel
	}
	outer := g
	if a.p.graph.Preferred > t.LevelOf(a.bound) {
		outer = &Group{
			Name: g.Name, Required: topology.NoLevel, Preferred: a.p.graph.Preferred, Hint: g.Hint, Groups: []*Group{g}, near: a.soft,
		}
		if len(a.soft) == 0 {
			outer.want = a.rest(si, ri+1, false)
		}
	}
	u, search := prepare(t, outer), newSearch(a.p.cluster, t, a.p.options)
	if !search.place(u, a.bound) {
		r := search.refused(spokenFor(u), a.bound)
		if len(a.p.graph.Anchor) > 0 && !anchored && r.Code == CodeInsufficientCapacity {
			r.Elsewhere = search.elsewhere(inner(u), a.bound)
		}
		a.refuse(si, ri, r)
		return
	}
	search.reserve(u)
	if outer != g {
		a.soften(u.domain)
	}
	a.settle(si, ri, inner(u))
}

// refusedBefore returns the refusal of an earlier replica with the same requests, anchor and generation. The refusal still applies, because
// capacity has not grown since.
func (a *attempt) refusedBefore(si, ri int) *Refusal {
	s := a.p.components[si]
	for i := ri - 1; i >= 0; i-- {
		if len(a.spreads[si]) > 0 && len(a.results[si][i].Pods) > 0 {
			return nil // this replica has changed the counts of the spread
		}
		if r := a.results[si][i].Refusal; r != nil && s.of[i] == s.of[ri] && s.Waiting[i].asks(&s.Waiting[ri]) {
			return r
		}
	}
	return nil
}

// asks reports whether two replicas may go to the same domains.
func (r *Replica) asks(o *Replica) bool {
	return r.Anchor.Equal(o.Anchor) && r.Generation == o.Generation
}

// soften records a domain that was chosen for the graph's preferred level, so that later replicas try it first.
func (a *attempt) soften(d topology.DomainID) {
	if a.p.tree.LevelOf(d) > a.p.tree.LevelOf(a.bound) {
		a.soft = addPath(a.soft, a.p.tree.Path(d))
	}
}

func addPath(paths []topology.Path, p topology.Path) []topology.Path {
	if slices.ContainsFunc(paths, p.Equal) {
		return paths
	}
	return append(paths, p)
}

// settle records the place of a replica in its result.
func (a *attempt) settle(si, ri int, u *unit) {
	u = inner(u)
	s, path := a.p.components[si], a.p.tree.Path(u.domain)
	r := &a.results[si][ri]
	r.Domain, r.Pods = path, podResults(a.p.cluster, u)
	a.placed++
	a.noteSpread(si, ri, path)
	a.notePair(si, ri, path)
	if s.one() && len(a.unit[si]) == 0 {
		a.unit[si] = path.Truncate(s.Required)
	}
	if s.Preferred > s.Required && len(path) > 0 {
		a.used[si] = addPath(a.used[si], path)
	}
}

func (a *attempt) refuse(si, ri int, r *Refusal) {
	own := *r
	own.Component, own.Ordinal = a.p.components[si].Name, a.p.components[si].Waiting[ri].Ordinal
	a.results[si][ri].Refusal = &own
}

// betterThan reports whether a places more replicas than other, or as many with less imbalance between roles. other may be nil.
func (a *attempt) betterThan(other *attempt) bool {
	switch {
	case a.placed == 0 || other == nil:
		return a.placed > 0
	case a.placed != other.placed || a.pairs == nil:
		return a.placed > other.placed
	}
	mine, _ := a.imbalance()
	theirs, _ := other.imbalance()
	return mine < theirs
}

// decides reports whether the attempt ends the comparison, because none of the following candidates can be better.
func (a *attempt) decides(following []candidate) bool {
	return len(following) == 0 || a.beats(following[0].ahead)
}

// enough reports whether the comparison may skip the remaining candidates, each of which places at most atMost replicas. tried is the
// number of candidates that the comparison has tried.
func (a *attempt) enough(atMost, tried int) bool {
	return a != nil && (a.beats(atMost) || a.placed >= atMost && tried >= shortlist)
}

// beats reports whether no attempt that places at most atMost replicas can be better.
func (a *attempt) beats(atMost int) bool {
	return a.placed > atMost || a.placed == atMost && a.balanced()
}
