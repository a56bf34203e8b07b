// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
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
	mark := len(s.taken)
	part := s.part(u, best)
	if part == nil {
		s.giveBack(mark)
		s.shortage(r.Closest, u, best)
		return
	}
	r.Cause = s.refusal(part, best)
	s.giveBack(mark)
}

// nearest returns the domain that holds most pods of the unit, and how many.
func (s *search) nearest(u *unit, domains []topology.DomainID, bounds []int) (topology.DomainID, int) {
	if u.demands() == 1 && len(u.subs) == 0 {
		at := 0
		for i := range bounds {
			if bounds[i] > bounds[at] {
				at = i
			}
		}
		return domains[at], bounds[at]
	}
	best, holds := topology.Nowhere, -1
	done := make([]bool, len(domains))
	for range min(closestTries, len(domains)) {
		at := -1
		for i := range bounds {
			if !done[i] && (at < 0 || bounds[i] > bounds[at]) {
				at = i
			}
		}
		if bounds[at] <= holds {
			break
		}
		done[at] = true
		bounds[at] = s.partial(u, domains[at])
		if bounds[at] > holds {
			best, holds = domains[at], bounds[at]
		}
	}
	return best, holds
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
	mark := len(s.taken)
	holds := s.packPart(u, d)
	s.giveBack(mark)
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
		n := min(len(dm.pods), dm.view.Fit(d))
		s.fill(dm, d, n)
		holds += n
	}
	return holds
}

// fits tries a part of a unit by itself and leaves it taken if it fits. Explaining has a small budget of its own.
func (s *search) fits(u *unit, d topology.DomainID) bool {
	steps, deep, spent := s.steps, s.deep, s.spent
	s.steps, s.deep, s.spent = 1000, false, false
	found := s.solve(&goal{unit: u, at: d})
	s.steps, s.deep, s.spent = steps, deep, spent
	return found
}

// part returns the first part of the unit that finds no capacity in a domain beside the parts before it, which stay taken; nil when there are
// no parts or all find capacity.
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
	counts := map[topology.Exclusion]int{}
	s.tree.AllNodes(d, func(n topology.NodeID) bool {
		c.Hosts++
		why, excluded := short.view.Why(n)
		if excluded {
			why.Have, why.Need = 0, 0
			counts[why]++
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
	c.Short = keepShort(c.Short)
	c.Excluded = sortExcluded(counts)
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
