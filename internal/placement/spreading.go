// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Spread spreads the replicas of a component over the domains of a level (docs/placement.md#spreading-replicas).
type Spread struct {
	// Required and Preferred are levels over whose domains the replicas are spread. With Required, the numbers of replicas in the domains
	// may differ by at most 1. With Preferred, they differ as little as capacity allows. [topology.NoLevel]: none.
	Required, Preferred int
	// At lists the domain of each replica that is placed and is not being replaced.
	At []topology.Path
}

// A replica of a spread component gets an additional group around its own: the outer group chooses the domain of the spread level, and the
// replica's constraint applies inside it. Domains with the fewest replicas are tried first.
//
//	over zones, in one rack each:   decode-2 {zone: a has 1, b has 1, c has 0} > {rack} > pods
//
// With a required spread, a domain that gets a replica must not end up two replicas ahead of another domain. While several replicas are
// placed together, a domain may be further ahead, as long as the remaining replicas suffice to fill up the other domains.

// spreading is the state of an attempt for one level over which the replicas of a component are spread.
type spreading struct {
	// number identifies the spreading within the attempt.
	number uint64
	level  int
	hard   bool
	// wanted is the number of waiting replicas.
	wanted int
	// counts holds the number of placed replicas by domain of the level.
	counts map[topology.DomainID]int
}

// spreadings returns the levels over which the component si is spread, the broader level first.
func (p *planner) spreadings(si int, s *component) []*spreading {
	if s.Spread == nil || len(p.graph.Levels) == 0 {
		return nil
	}
	var out []*spreading
	add := func(level int, hard bool) {
		if level < 0 || level >= len(p.graph.Levels) {
			return
		}
		one := &spreading{number: uint64(2*si + len(out)), level: level, hard: hard, wanted: len(s.Waiting), counts: map[topology.DomainID]int{}}
		for _, path := range s.Spread.At {
			one.add(p.tree, path)
		}
		for i := range s.Waiting {
			one.add(p.tree, s.Waiting[i].Anchor)
		}
		out = append(out, one)
	}
	add(s.Spread.Required, true)
	if s.Spread.Preferred != s.Spread.Required {
		add(s.Spread.Preferred, false)
	}
	slices.SortFunc(out, func(a, b *spreading) int { return cmp.Compare(a.level, b.level) })
	return out
}

func (sp *spreading) add(t *topology.Tree, path topology.Path) {
	if len(path) <= sp.level {
		return
	}
	if d, found := t.Find(path.Truncate(sp.level)); found {
		sp.counts[d]++
	}
}

// spread wraps the group of a replica in groups that choose the domains of its spread levels, unless the replica is anchored.
func (a *attempt) spread(si, ri int, g *Group) *Group {
	s := a.p.components[si]
	if len(a.spreads[si]) == 0 || len(s.Waiting[ri].Anchor) > 0 {
		return g
	}
	outer := g
	if s.one() && g.Required != topology.NoLevel { // the shared domain of all replicas contains the domains over which they are spread
		pods := *g
		pods.Required, pods.Preferred, pods.want = topology.NoLevel, topology.NoLevel, nil
		outer, g = g, &pods
		outer.Pods, outer.On, outer.Apart = nil, nil, false
		outer.Groups = []*Group{a.around(si, g)}
		return outer
	}
	return a.around(si, g)
}

func (a *attempt) around(si int, g *Group) *Group {
	for _, sp := range slices.Backward(a.spreads[si]) {
		around := &Group{
			Name: g.Name, Required: topology.NoLevel, Preferred: topology.NoLevel, Within: g.Within, Hint: g.Hint.Truncate(sp.level),
			Groups: []*Group{g}, spread: sp,
		}
		if sp.hard {
			around.Required = sp.level
		}
		g = around
	}
	return g
}

// noteSpread counts a placed replica in its domain.
func (a *attempt) noteSpread(si, ri int, path topology.Path) {
	if len(a.p.components[si].Waiting[ri].Anchor) > 0 {
		return // anchored replicas are counted already
	}
	for _, sp := range a.spreads[si] {
		sp.add(a.p.tree, path)
	}
}

// spreadPut identifies a domain of a spreading.
type spreadPut struct {
	of *spreading
	at topology.DomainID
}

// begin resets the counts of spread replicas for a new search. For each spreading, it counts the groups that the search has to place.
func (s *search) begin(u *unit) {
	s.puts, s.open, s.eligible = nil, nil, nil
	u.all(func(x *unit) {
		if x.spread == nil {
			return
		}
		if s.open == nil {
			s.puts, s.open, s.eligible = map[spreadPut]int{}, map[*spreading]int{}, map[eligibleIn][]topology.DomainID{}
		}
		s.open[x.spread]++
	})
}

// put records that a group is put into a domain (k = 1) or removed from it (k = -1).
func (s *search) put(u *unit, d topology.DomainID, k int) {
	if u.spread == nil {
		return
	}
	s.open[u.spread] -= k
	if s.tree.LevelOf(d) == u.spread.level {
		s.puts[spreadPut{u.spread, d}] += k
	}
}

// point is a saved state to which the search can return.
type point struct {
	taken int
	puts  map[spreadPut]int
	open  map[*spreading]int
}

func (s *search) here() point { return point{len(s.taken), maps.Clone(s.puts), maps.Clone(s.open)} }

func (s *search) back(to point) {
	s.giveBack(to.taken)
	s.puts, s.open = to.puts, to.open
}

// replicas returns the number of replicas that a spreading has in a domain.
func (s *search) replicas(sp *spreading, d topology.DomainID) int {
	return sp.counts[d] + s.puts[spreadPut{sp, d}]
}

// eligibleIn is the cache key of eligibleFor: a group and the domain that must hold it.
type eligibleIn struct {
	unit  *unit
	scope topology.DomainID
}

// eligibleFor returns the domains of the spread level that have nodes for the replica's pods, and would hold the replica if empty.
func (s *search) eligibleFor(u *unit, scope topology.DomainID) []topology.DomainID {
	key := eligibleIn{u, scope}
	list, known := s.eligible[key]
	if known {
		return list
	}
	for _, d := range s.tree.Domains(u.spread.level, scope) {
		unsuited := slices.ContainsFunc(u.total, func(c count) bool { return c.view.Suiting(d) == 0 })
		if !unsuited && s.couldHold(u, d) {
			list = append(list, d)
		}
	}
	s.eligible[key] = list
	return list
}

// allows reports whether a required spread allows a group in a domain. Domains that are then more than one replica behind the fullest
// domain must be filled up by the remaining replicas.
func (s *search) allows(u *unit, scope, d topology.DomainID) bool {
	sp, eligible := u.spread, s.eligibleFor(u, scope)
	if !slices.Contains(eligible, d) {
		return false
	}
	most := s.replicas(sp, d) + 1
	for put, k := range s.puts {
		if put.of == sp && k > 0 {
			most = max(most, s.replicas(sp, put.at))
		}
	}
	missing := 0
	for _, e := range eligible {
		n := s.replicas(sp, e)
		if e == d {
			n++
		}
		missing += max(0, most-1-n)
	}
	return missing <= s.open[sp]-1
}

// spreadOver lists the domains for a group of a spread component, best first: fewest replicas, then the former domain, then the order of
// compareChoices. For a preferred spread, the last entry is the argument bound.
func (s *search) spreadOver(u *unit, bound, scope topology.DomainID) []topology.DomainID {
	sp := u.spread
	if s.tree.LevelOf(bound) >= sp.level {
		return []topology.DomainID{bound}
	}
	type ranked struct {
		choice
		replicas int
	}
	var list []ranked
	for _, d := range s.tree.Domains(sp.level, bound) {
		if s.holds(u, d) && (!sp.hard || s.allows(u, scope, d)) {
			list = append(list, ranked{s.rank(u, d), s.replicas(sp, d)})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.replicas, b.replicas), bools.Compare(b.domain == u.hint, a.domain == u.hint), compareChoices(&a.choice,
			&b.choice))
	})
	domains := make([]topology.DomainID, 0, len(list)+1)
	for i := range list {
		domains = append(domains, list[i].domain)
	}
	if !sp.hard {
		domains = append(domains, bound)
	}
	return domains
}

// breadth returns the number of domains inside d over which the replicas of a unit can be spread: the minimum over its components.
func (s *search) breadth(u *unit, d topology.DomainID) int {
	least := -1
	u.all(func(x *unit) {
		if x.spread == nil || x.spread.level <= s.tree.LevelOf(d) {
			return
		}
		if n := min(len(s.eligibleFor(x, d)), x.spread.wanted); least < 0 || n < least {
			least = n
		}
	})
	return least
}

// spreadMark mixes the number of replicas that each spreading has in d into the mark of d, so that only domains with equal numbers are
// alike. It returns false if a spread level is narrower than d, because the sub-domains may then have different numbers.
func (s *search) spreadMark(mark uint64, d topology.DomainID) (uint64, bool) {
	for sp := range s.open {
		switch level := s.tree.LevelOf(d); {
		case sp.level > level:
			return 0, false
		case sp.level == level:
			mark ^= mix(sp.number<<32 ^ uint64(s.replicas(sp, d)+1)) // in any order
		}
	}
	return mark, true
}

// spreadOnly removes the domains that a required spread forbids for a group. Callers use it when they try domains one by one.
func (p *planner) spreadOnly(u *unit, bound topology.DomainID, list []topology.DomainID) []topology.DomainID {
	s := newSearch(p.cluster, p.tree, p.options)
	s.begin(u)
	for x := u; x != nil && len(x.own) == 0 && len(x.subs) == 1; x = x.subs[0] {
		if x.spread == nil || !x.spread.hard {
			continue
		}
		list = slices.DeleteFunc(slices.Clone(list), func(d topology.DomainID) bool {
			at := p.tree.At(d, x.spread.level)
			return at != topology.Nowhere && at != bound && p.tree.LevelOf(bound) < x.spread.level && !s.allows(x, bound, at)
		})
	}
	return list
}

// inner returns the part of a one-replica unit that contains the pods.
func inner(u *unit) *unit {
	for len(u.own) == 0 && len(u.subs) == 1 {
		u = u.subs[0]
	}
	return u
}
