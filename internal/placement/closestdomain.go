// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// closestTries is the maximum number of domains into which a search tries to pack a unit if counting pods does not suffice to find the
// closest domain.
const closestTries = 8

// closest records in the refusal which domain holds the most pods of the unit, and how many other domains hold equally many or fewer pods.
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
	// The second condition is true for a replica of a spread component that needs no narrower domain inside its domain of the spread level.
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

// maxCompared is the maximum number of otherwise equal domains that are compared, in path order, by the free capacity of their hosts.
const maxCompared = 32

// nearest returns the domain that holds the most pods of the unit, and the number of these pods. It counts the pods if all of them have one
// shape, and otherwise tries to pack the unit. bounds contains, per domain, an upper bound on the number of pods. nearest replaces the
// bound of each domain that it tries by the number of packed pods.
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
			break // no other domain can hold more
		}
		packed, bounds[at] = append(packed, at), s.partial(u, domains[at])
	}
	slices.Sort(packed)
	at := s.firstClosest(u, domains, bounds, packed)
	return domains[at], bounds[at]
}

// firstClosest returns the index of the closest domain, among the given indexes. This domain holds the most pods of the unit, then has the
// most hosts that suit the unit's scarcest pods, then has the most free capacity on these hosts, then is first.
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

// freeFor returns how much of the scarcest requested resource is free on the suitable hosts of a domain.
func freeFor(view *topology.View, d topology.DomainID) int64 {
	at := scarcest(view.Shape().Requests())
	if at < 0 {
		return 0
	}
	return view.Free(d, at)
}

// atMost returns an upper bound on the number of the unit's pods that a domain holds. It counts each shape separately.
func atMost(u *unit, d topology.DomainID) int {
	n := 0
	for _, c := range u.total {
		n += min(c.view.Fit(d), c.pods)
	}
	return n
}

// partial returns how many pods of a unit can be packed into a domain. It packs a part that needs its own domain either entirely or not at
// all, and other pods one by one.
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

// fits tries to place one part of a unit in a domain. If the part fits, its capacity stays taken. The search has a small budget, because
// the result only explains a refusal.
func (s *search) fits(u *unit, d topology.DomainID) bool {
	steps, deep, spent := s.steps, s.deep, s.spent
	s.steps, s.deep, s.spent = 1000, false, false
	found := s.solve(&goal{unit: u, at: d, scope: d})
	s.steps, s.deep, s.spent = steps, deep, spent
	return found
}

// part returns the first part of the unit that does not fit into a domain alongside the earlier parts. The capacity of the earlier parts
// stays taken. It returns nil when there are no parts or all parts fit.
func (s *search) part(u *unit, d topology.DomainID) *unit {
	for _, sub := range u.subs {
		if !s.fits(sub, d) {
			return sub
		}
	}
	return nil
}

// shortage records, for the scarcest shape that does not fit, the resources that the closest domain lacks and the excluded hosts.
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
			if !counts { // the node does not lack the resource
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

// short returns the first shape of which a domain holds too few pods, or the first of all shapes if each shape would fit separately.
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

// needs lists the requests of a unit by shape.
func needs(u *unit) []Need {
	list := make([]Need, 0, len(u.total))
	for _, c := range u.total {
		list = append(list, Need{Pods: c.pods, Requests: c.view.Shape().Requests()})
	}
	return list
}
