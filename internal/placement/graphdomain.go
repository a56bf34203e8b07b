// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// choose finds the graph domain (docs/placement.md#which-domain): the domain of the required level that holds the base gang and the most
// replicas. Of domains that hold equally many replicas, choose prefers the domain in which the graph uses the fewest sub-domains, then the
// tightest domain, then the first by path. It tries the domains, most promising first, until no other domain can hold more replicas.
func (p *planner) choose() *attempt {
	base := p.free()
	if a := cmp.Or(p.refuseLevel(), p.refusePartnerless()); base && a != nil {
		return a
	}
	s := newSearch(p.cluster, p.tree, p.options)
	if a := p.quick(base, s); a != nil {
		return a
	}
	list := p.candidates(base)
	if a := p.best(list, base, s, true); a != nil {
		return a
	}
	if base {
		if a := p.best(list, base, s, false); a != nil {
			return a
		}
		return p.refuseBase(s)
	}
	return p.refuseEach(s)
}

// quick finds the best domain by counting pods, and places the graph there if the entire graph fits. In this case, no other domain is
// better.
func (p *planner) quick(base bool, s *search) *attempt {
	var all []count
	replicas := 0
	for _, component := range p.components {
		if component.Spread != nil {
			return nil
		}
		for i := range component.Waiting {
			replicas++
			if r := &component.Waiting[i]; len(r.Hint) > 0 || len(r.Anchor) > 0 {
				return nil
			}
		}
		for _, k := range component.kinds {
			for _, c := range k.counts {
				all = addCount(all, c.view, c.pods*k.replicas)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b count) int { return harder(a.view, b.view) })
	d := s.quickest(all, p.graph.Required, topology.Root)
	if d == topology.Nowhere {
		return nil
	}
	s.quick = true
	p.cluster.Begin()
	if a := p.attempt(d, base, s); a.placed == replicas && a.balanced() {
		p.cluster.Commit()
		return a
	}
	p.cluster.Rollback()
	return nil
}

// candidates lists the domains of the required level that may hold replicas, most promising first. A domain is more promising if it may
// hold more replicas, then if its breadth is larger, then if it is the former domain, then as in compareChoices.
func (p *planner) candidates(base bool) []candidate {
	a := newAttempt(p, topology.Root)
	u := prepare(p.tree, a.baseGroup())
	u.want = nil
	for si := range p.components {
		for _, r := range p.components[si].Waiting[p.components[si].first():] {
			u.want, _ = addKind(u.want, p.tree, r.Pods)
		}
	}
	s := newSearch(p.cluster, p.tree, p.options)
	s.begin(u)
	former := p.former()
	var list []candidate
	for _, d := range p.tree.Domains(p.graph.Required, topology.Root) {
		if base && !s.holds(u, d) {
			continue
		}
		one := candidate{choice: s.rank(u, d), former: former == d, breadth: s.breadth(u, d)}
		one.ahead = p.atMost(d)
		if one.ahead > 0 {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, compareCandidates)
	top := list[:min(len(list), shortlist)]
	if len(top) > 1 && p.graph.Required < len(p.graph.Levels)-1 {
		for i := range top {
			top[i].spread = s.spreadOf(u, top[i].domain)
		}
		slices.SortStableFunc(top, compareCandidates)
	}
	return list
}

// candidate is a possible graph domain. ahead is an upper bound on the number of replicas that the domain holds.
type candidate struct {
	choice
	// former: this domain held the most waiting replicas before.
	former bool
	// breadth is the number of sub-domains over which the replicas can be spread.
	breadth int
}

func compareCandidates(a, b candidate) int {
	if a.ahead == b.ahead && a.breadth != b.breadth {
		return b.breadth - a.breadth
	}
	if a.ahead == b.ahead && a.former != b.former {
		return bools.Compare(b.former, a.former)
	}
	return compareChoices(&a.choice, &b.choice)
}

// former returns the domain of the required level that held the most waiting replicas before; Nowhere when there is none.
func (p *planner) former() topology.DomainID {
	counts := map[topology.DomainID]int{}
	best := topology.Nowhere
	for _, s := range p.components {
		for i := range s.Waiting {
			d, found := p.tree.Find(s.Waiting[i].Hint.Truncate(p.graph.Required))
			if !found || p.tree.LevelOf(d) != p.graph.Required {
				continue
			}
			counts[d]++
			if best == topology.Nowhere || counts[d] > counts[best] {
				best = d
			}
		}
	}
	return best
}

// atMost returns an upper bound on the number of waiting replicas that a domain holds.
func (p *planner) atMost(d topology.DomainID) int {
	n := 0
	for _, s := range p.components {
		for i := range s.kinds {
			n += s.kinds[i].holds(d, nil)
		}
	}
	return n
}

// best tries the candidates in order and returns the attempt that placed the most replicas; nil when no attempt placed any. All candidates
// share one budget. Each candidate may use an equal share of the remaining steps, or a quarter of the steps if that is more.
func (p *planner) best(list []candidate, base bool, s *search, quick bool) *attempt {
	var found, kept *attempt
	p.half(func() { found, kept = p.compare(list, base, s, quick) })
	if found == nil {
		return kept
	}
	again := newSearch(p.cluster, p.tree, p.options)
	again.quick = quick
	p.cluster.Begin()
	if a := p.attempt(found.bound, base, again); a.placed > 0 {
		p.cluster.Commit()
		return a
	}
	p.cluster.Rollback() // the plan's budget ended meanwhile
	s.exhaust()
	return nil
}

// compare tries the candidates until no following candidate can hold more replicas. An attempt that is certain to be the best stays placed
// and is returned as kept. Otherwise compare rolls back all attempts and returns the best one.
func (p *planner) compare(list []candidate, base bool, s *search, quick bool) (best, kept *attempt) {
	var failed []uint64 // marks of the domains that do not hold the base gang
	ranOut := false
	for i, c := range list {
		if p.over() || best.enough(c.ahead, i) {
			break
		}
		if best == nil && s.looksLike(failed, c.domain) {
			continue
		}
		later := s.steps - s.steps/min(len(list)-i, 4)
		s.steps -= later
		s.quick = quick
		p.cluster.Begin()
		a := p.attempt(c.domain, base, s)
		better := a.betterThan(best)
		if better && a.decides(list[i+1:]) {
			p.cluster.Commit()
			return nil, a
		}
		p.cluster.Rollback()
		s.steps = max(s.steps, 0) + later
		ranOut = ranOut || s.spent
		if better {
			best = a
		} else if base && a.placed == 0 && !p.tied() {
			failed = append(failed, s.mark(c.domain))
		}
	}
	if best == nil {
		p.foundNothing(s, ranOut)
	}
	return best, nil
}

// foundNothing records in the search that the plan's budget is used up, or that the search's own budget was used up for a candidate.
func (p *planner) foundNothing(s *search, ranOut bool) {
	if p.over() {
		s.exhaust()
		return
	}
	s.spent = ranOut
}

// tied reports whether some replica must go to a particular domain, so that similar domains are not interchangeable.
func (p *planner) tied() bool {
	for _, s := range p.components {
		if len(s.Anchor) > 0 || slices.ContainsFunc(s.Waiting, func(r Replica) bool { return len(r.Anchor) > 0 }) {
			return true
		}
	}
	return false
}

// refuseBase explains why no domain of the required level holds the base gang.
func (p *planner) refuseBase(s *search) *attempt {
	g := newAttempt(p, topology.Root).baseGroup()
	g.Required, g.Preferred = p.graph.Required, topology.NoLevel
	r := p.unplanned(g, g.Required)
	if !p.over() {
		r = s.refused(prepare(p.tree, g), topology.Root)
	}
	a := p.refuseAll(r)
	for si, component := range p.components {
		for ri := range component.Waiting {
			one := a.results[si][ri].Refusal
			if a.results[si][ri].Base = ri < component.first(); !a.results[si][ri].Base {
				*one = Refusal{Code: CodeBaseGangWaits, Component: one.Component, Ordinal: one.Ordinal, Gang: r.Gang,
					Level: r.Level, LevelName: r.LevelName, Need: r.Need, Cause: r}
			}
		}
	}
	return a
}

// refuseEach explains, replica by replica, why no domain holds any remaining replica of a graph that is partly placed.
func (p *planner) refuseEach(s *search) *attempt {
	a := newAttempt(p, topology.Nowhere)
	for si, component := range p.components {
		for ri := range component.Waiting {
			g := a.replicaGroup(si, ri)
			g.Required = max(g.Required, p.graph.Required)
			switch r := a.refusedBefore(si, ri); {
			case r != nil:
				a.refuse(si, ri, r)
			case p.over():
				a.refuse(si, ri, p.unplanned(g, g.Required))
			default:
				a.refuse(si, ri, s.refused(prepare(p.tree, g), topology.Root))
			}
		}
	}
	return a
}

// refuseLevel refuses a base gang with a component whose required level is gone; nil when there is no such component.
func (p *planner) refuseLevel() *attempt {
	at := slices.IndexFunc(p.components, func(s *component) bool { return p.gone(s.Required) })
	if at < 0 {
		return nil
	}
	cause := levelGone(p.components[at].Name, p.components[at].Required)
	a := newAttempt(p, topology.Nowhere)
	for si, component := range p.components {
		for ri := range component.Waiting {
			if p.gone(component.Required) {
				a.refuse(si, ri, levelGone(component.Name, component.Required))
			} else {
				a.refuse(si, ri, &Refusal{Code: CodeBaseGangWaits, Gang: baseGang, Level: p.graph.Required,
					LevelName: p.tree.Levels().Name(p.graph.Required), Cause: cause})
			}
			a.results[si][ri].Base = ri < component.first()
		}
	}
	return a
}
