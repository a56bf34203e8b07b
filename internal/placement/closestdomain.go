// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// closestTries is how many domains are packed for real to find the one that comes nearest, when counting alone does not tell.
const closestTries = 8

// closest finds the domain that holds most of the unit and counts the others against it.
func (s *search) closest(r *Refusal, u *unit, domains []topology.DomainID) {
	bounds := make([]int, len(domains))
	for i, d := range domains {
		bounds[i] = atMost(u, d)
	}
	best, holds := s.nearest(u, domains, bounds)
	for i, d := range domains {
		switch {
		case d == best:
		case bounds[i] >= holds:
			r.OthersEqual++
		default:
			r.OthersFewer++
		}
	}
	r.Closest = &Closest{Domain: s.tree.Path(best), Holds: holds, Of: u.size}
	if s.listing {
		s.list(r, u, best, domains, bounds)
	}
	before := s.here()
	part := s.part(u, best)
	// a replica without a domain of its own inside the one it is spread to
	if part == nil || u.spread != nil && part.required == topology.NoLevel {
		s.back(before)
		if u.spread != nil {
			u = inner(u)
		}
		s.shortage(r.Closest, u, best)
		s.noteLeftOut(r, u)
		return
	}
	r.Cause = s.refusal(part, best)
	s.back(before)
}

// maxCompared is how many domains that are alike otherwise are compared by what is free on their hosts; the first ones in path order.
const maxCompared = 32

// nearest returns the domain that holds most pods of the unit, and how many: counted, for a unit of one kind of pods, and else packed for
// real. bounds is what each holds by counting, and afterwards what was found.
func (s *search) nearest(u *unit, domains []topology.DomainID, bounds []int) (topology.DomainID, int) {
	all := make([]int, len(domains))
	for i := range all {
		all[i] = i
	}
	if u.demands() == 1 && len(u.subs) == 0 && !u.together() {
		at := s.firstClosest(u, domains, bounds, all)
		return domains[at], bounds[at]
	}
	var packed []int
	for range min(closestTries, len(domains)) {
		at := s.firstClosest(u, domains, bounds, all)
		if slices.Contains(packed, at) {
			break // no other one can hold more
		}
		packed, bounds[at] = append(packed, at), s.partial(u, domains[at])
	}
	slices.Sort(packed)
	at := s.firstClosest(u, domains, bounds, packed)
	return domains[at], bounds[at]
}

// firstClosest is the index, among some, of the domain that comes nearest to holding a unit: of those that hold most of its pods the one
// with most hosts that suit its scarcest pods, then the one with most free there, then the first.
func (s *search) firstClosest(u *unit, domains []topology.DomainID, holds []int, among []int) int {
	hosts := func(i int) int {
		if len(u.total) == 0 {
			return 0
		}
		return u.total[0].view.Suiting(domains[i])
	}
	var equal []int
	for _, i := range among {
		order := 1
		if len(equal) > 0 {
			order = cmp.Or(cmp.Compare(holds[i], holds[equal[0]]), cmp.Compare(hosts(i), hosts(equal[0])))
		}
		switch {
		case order > 0:
			equal = append(equal[:0], i)
		case order == 0 && len(equal) < maxCompared:
			equal = append(equal, i)
		}
	}
	if len(equal) == 1 || len(u.total) == 0 {
		return equal[0]
	}
	return slices.MaxFunc(equal, func(a, b int) int {
		return cmp.Compare(freeFor(u.total[0].view, domains[a]), freeFor(u.total[0].view, domains[b]))
	})
}

// freeFor adds up what is free, on the hosts of a domain that suit the pods, of the resource that is scarcest by nature.
func freeFor(view *topology.View, d topology.DomainID) int64 {
	at := scarcest(view.Shape().Requests())
	if at < 0 {
		return 0
	}
	return view.Free(d, at)
}

// atMost bounds from above how many pods of the unit a domain holds: shape by shape.
func atMost(u *unit, d topology.DomainID) int {
	n := 0
	for _, c := range u.total {
		n += min(c.view.Fit(d), c.pods)
	}
	return n
}

// partial packs as much of a unit into a domain as goes: parts that need a domain of their own whole or not at all, loose pods one by one.
func (s *search) partial(u *unit, d topology.DomainID) int {
	before := s.here()
	holds := s.packPart(u, d)
	s.back(before)
	return holds
}

func (s *search) packPart(u *unit, d topology.DomainID) int {
	holds := 0
	for _, sub := range u.subs {
		if s.fits(sub, d) {
			holds += sub.size
		} else if sub.required <= s.tree.LevelOf(d) && sub.within == topology.Nowhere {
			holds += s.packPart(sub, d)
		}
	}
	for _, dm := range u.own {
		holds += s.some(dm, d, s.scopeOf(u, d, topology.Root), min(len(dm.pods), dm.fit(s.tree, d)))
	}
	return holds
}

// fits tries a part of a unit by itself and leaves it taken if it fits. Explaining has a small budget of its own.
func (s *search) fits(u *unit, d topology.DomainID) bool {
	steps, deep, spent := s.steps, s.deep, s.spent
	s.steps, s.deep, s.spent = 1000, false, false
	found := s.solve(&goal{unit: u, at: d, scope: d})
	s.steps, s.deep, s.spent = steps, deep, spent
	return found
}

// part returns the first part of the unit that finds no capacity in a domain alongside the parts before it, which stay taken; nil when
// there are no parts or all find capacity.
func (s *search) part(u *unit, d topology.DomainID) *unit {
	for _, sub := range u.subs {
		if !s.fits(sub, d) {
			return sub
		}
	}
	return nil
}

// shortage fills in what is missing in the closest domain, for the scarcest shape that does not fit.
func (s *search) shortage(c *Closest, u *unit, d topology.DomainID) {
	short := u.short(d)
	if short == nil {
		return
	}
	for _, r := range short.view.Shape().Requests() {
		c.Short = append(c.Short, Short{Resource: r.Name, Each: r.Amount, Need: r.Amount * int64(short.pods)})
	}
	var hosts exclusions
	s.tree.AllNodes(d, func(n topology.NodeID) bool {
		c.Hosts++
		why, excluded := short.view.Why(n)
		if excluded {
			hosts.add(why)
		}
		if excluded && why.Kind != topology.KindResource {
			return true
		}
		for i := range c.Short {
			left, counts := short.view.Left(n, i)
			if !counts { // it is not short of it
				c.Short[i].Have, left = c.Short[i].Have+c.Short[i].Need, c.Short[i].Each
			}
			c.Short[i].Have += max(left, 0)
			c.Short[i].Largest = max(c.Short[i].Largest, left)
		}
		return true
	})
	s.unallowed(u, d, short.view, &hosts)
	c.Short = keepShort(c.Short)
	c.Excluded = hosts.sorted()
}

// short is the shape of which a domain holds too few; the first one when each by itself would fit.
func (u *unit) short(d topology.DomainID) *count {
	for i := range u.total {
		if t := &u.total[i]; t.view.Fit(d) < t.pods {
			return t
		}
	}
	if len(u.total) == 0 {
		return nil
	}
	return &u.total[0]
}

// needs lists what a unit asks for, by shape.
func needs(u *unit) []Need {
	list := make([]Need, 0, len(u.total))
	for _, c := range u.total {
		list = append(list, Need{Pods: c.pods, Requests: c.view.Shape().Requests()})
	}
	return list
}
