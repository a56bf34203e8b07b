// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// quick finds the best domain of the current level by classes of domains, which is cheaper than a comparison of all domains. It returns a
// domain only if a ranking of all domains would give the same result. For this, the unit must have no later replicas to consider, and the
// domain must use as few sub-domains as its class suggests.
func (c *choices) quick() topology.DomainID {
	t, u := c.s.tree, c.u
	if len(u.total) == 0 || len(u.want) > 0 || len(c.tried) > 0 || c.level <= t.LevelOf(c.bound) {
		return topology.Nowhere
	}
	return c.s.quickest(u.total, c.level, c.bound)
}

// quickest returns the domain of a level that is tightest for the scarcest shape and also holds the other shapes. It returns Nowhere when
// there is no such domain, or when classes do not suffice to find it.
func (s *search) quickest(total []count, level int, bound topology.DomainID) topology.DomainID {
	scarce := total[0]
	classes := scarce.view.Classes(level)
	last := packing{used: -1}
	for {
		now, found := nextPacking(classes, scarce.pods, last)
		if !found {
			return topology.Nowhere
		}
		best := topology.Nowhere
		for i := range classes {
			if class := &classes[i]; class.Domains > 0 && packingIn(class, scarce.pods) == now {
				if d := s.firstHolding(total, level, class, bound); d != topology.Nowhere && (best == topology.Nowhere || s.tree.Before(d, best)) {
					best = d
				}
			}
		}
		if best != topology.Nowhere {
			return s.confirm(scarce, level, best, now)
		}
		last = now
	}
}

func packingIn(class *topology.Class, pods int) packing {
	return packingOf(pods, class.Fit, class.Biggest)
}

// nextPacking returns the tightest packing that is less tight than last, among the classes that hold the given number of pods.
func nextPacking(classes []topology.Class, pods int, last packing) (next packing, found bool) {
	for i := range classes {
		if classes[i].Fit < pods || classes[i].Domains == 0 {
			continue
		}
		if p := packingIn(&classes[i], pods); p.compare(last) > 0 && (!found || p.compare(next) < 0) {
			next, found = p, true
		}
	}
	return next, found
}

// firstHolding returns the first member of a class, in path order, that holds each shape separately.
func (s *search) firstHolding(total []count, level int, class *topology.Class, bound topology.DomainID) topology.DomainID {
	first := topology.Nowhere
	total[0].view.Members(level, class, bound, func(d topology.DomainID) bool {
		for i := 1; i < len(total); i++ {
			if total[i].view.Fit(d) < total[i].pods {
				return true
			}
		}
		first = d
		return false
	})
	return first
}

// confirm returns the domain only if it actually uses as few sub-domains as its class suggests.
func (s *search) confirm(scarce count, level int, d topology.DomainID, p packing) topology.DomainID {
	last := len(s.tree.Levels()) - 1
	if level == last {
		return d
	}
	if level < last-1 {
		return topology.Nowhere // with several levels below, domains have to be compared one by one
	}
	used := make([]int, last+1)
	if spread(s.tree, scarce.view, d, scarce.pods, used); used[last] > p.used {
		return topology.Nowhere
	}
	return d
}
