// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// pairMember identifies a waiting replica.
type pairMember struct{ component, replica int }

// pairPlace lists the replicas that go to one domain.
type pairPlace struct {
	domain  topology.DomainID
	members []pairMember
}

// placePairs places the replicas of both roles: all at once or, where this problem is too large, a few at a time (inTurn).
func (a *attempt) placePairs() {
	if a.p.pairing == nil {
		return
	}
	for rest := a.pairKinds(); len(rest) > 0 && !a.p.over(); {
		if a.placeByNumbers(rest) {
			return
		}
		var next []pairKind
		next, rest = a.inTurn(rest)
		for !a.placeByNumbers(next) {
			last := len(next) - 1
			if last > 0 {
				rest = append(rest, next[last])
			}
			next = next[:last]
		}
	}
}

// placeByNumbers chooses the number of replicas of each kind for each domain, and places them. It returns false when the problem is too
// large.
func (a *attempt) placeByNumbers(kinds []pairKind) bool {
	if len(kinds) == 0 {
		return true
	}
	q, ok := a.newPairProblem(kinds)
	if !ok {
		return false
	}
	plan, ok := q.solve()
	if plan == nil {
		return ok
	}
	now, later := q.places(plan)
	for _, place := range now {
		a.placeIn(place)
	}
	a.pairsLater = append(a.pairsLater, later...)
	return true
}

// places assigns replicas to domains: first the replicas that were in the domain before, then the other replicas in their order.
func (q *pairProblem) places(plan *pairPlan) (now, later []pairPlace) {
	to := make([][2][]pairMember, len(q.domains))
	for i := range q.kinds {
		k := &q.kinds[i]
		left, total := make([]int, len(q.domains)), 0
		for d := range q.domains {
			left[d] = plan.sets[d][i]
			total += left[d]
		}
		at := 0
		if k.later {
			at = 1
		}
		take := func(d, ri int) {
			left[d]--
			to[d][at] = append(to[d][at], pairMember{k.component, ri})
		}
		var others []int
		for _, ri := range k.replicas[:total] {
			if d := q.formerOf(k, ri); d >= 0 && left[d] > 0 {
				take(d, ri)
			} else {
				others = append(others, ri)
			}
		}
		for d := range q.domains {
			for left[d] > 0 {
				take(d, others[0])
				others = others[1:]
			}
		}
	}
	for d := range q.domains {
		if len(to[d][0]) > 0 {
			now = append(now, pairPlace{q.domains[d].id, to[d][0]})
		}
		if len(to[d][1]) > 0 {
			later = append(later, pairPlace{q.domains[d].id, to[d][1]})
		}
	}
	return now, later
}

// formerOf returns the index in domains of a replica's former domain; -1 for none.
func (q *pairProblem) formerOf(k *pairKind, ri int) int {
	hint, level := q.a.p.components[k.component].Waiting[ri].Hint, q.a.p.pairing.Level
	if len(hint) <= level {
		return -1
	}
	path := hint.Truncate(level)
	return slices.IndexFunc(q.domains, func(d pairDomain) bool { return q.a.p.tree.Path(d.id).Equal(path) })
}

// pairGroup returns one group of the given replicas, with the constraints of their components. It also returns a map from each replica's
// subgroup to the replica. If the replicas of a component must share a domain, their subgroups are in one subgroup of the component.
func (a *attempt) pairGroup(some []pairMember) (*Group, map[*Group]pairMember) {
	g := &Group{Name: "pairs", Required: topology.NoLevel, Preferred: topology.NoLevel}
	of := map[*Group]pairMember{}
	units := map[int]*Group{}
	for _, m := range some {
		s, replica := a.p.components[m.component], a.replicaGroup(m.component, m.replica)
		of[replica] = m
		if !s.one() {
			g.Groups = append(g.Groups, replica)
			continue
		}
		unit := units[m.component]
		if unit == nil {
			unit = &Group{Name: s.Name, Required: s.Required, Preferred: s.Preferred, Within: a.unit[m.component], near: a.used[m.component]}
			units[m.component] = unit
			g.Groups = append(g.Groups, unit)
		}
		replica.Required, replica.Preferred, replica.Within = topology.NoLevel, topology.NoLevel, nil
		unit.Groups = append(unit.Groups, replica)
	}
	return g, of
}

// placeIn places all given replicas in a domain, or none of them.
func (a *attempt) placeIn(place pairPlace) {
	t := a.p.tree
	g, of := a.pairGroup(place.members)
	u, search := prepare(t, g), newSearch(a.p.cluster, t, a.p.options)
	if !search.place(u, place.domain) {
		return
	}
	search.reserve(u)
	if level := a.p.graph.Preferred; level <= a.p.pairing.Level && level > t.LevelOf(a.bound) {
		a.soften(t.At(place.domain, level))
	}
	u.all(func(x *unit) {
		if m, is := of[x.group]; is {
			a.settle(m.component, m.replica, x)
		}
	})
}

// placePairsLater places the later replicas in the domains that placeByNumbers chose.
func (a *attempt) placePairsLater() {
	for _, place := range a.pairsLater {
		place.members = slices.DeleteFunc(slices.Clone(place.members), func(m pairMember) bool { return !a.isPairable(m.component, m.replica) })
		if len(place.members) > 0 {
			a.placeIn(place)
		}
	}
	a.pairsLater = nil
}
