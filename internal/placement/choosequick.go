// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// quick finds the best domain of the current level by classes of domains, which costs less than looking at each domain. It returns a domain
// only where ranking all domains gives the same: without look-ahead, and if the domain uses as few sub-domains as its class suggests.
func (c *choices) quick() topology.DomainID {
	t, u := c.s.tree, c.u
	if len(u.total) == 0 || len(u.want) > 0 || len(c.tried) > 0 || c.level <= t.LevelOf(c.bound) {
		return topology.Nowhere
	}
	return c.s.quickest(u.total, c.level, c.bound)
}

// order is the rank of a class: fewest sub-domains used, then the tightest fit, as in [compareChoices].
type order struct{ used, fit int }

func (a order) compare(b order) int {
	return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.fit, b.fit))
}

// quickest returns the domain of a level that is tightest for the scarcest shape and holds the others too; Nowhere when there is none, or
// when classes are not enough to decide.
func (s *search) quickest(total []count, level int, bound topology.DomainID) topology.DomainID {
	scarce := total[0]
	classes := scarce.view.Classes(level)
	last := order{used: -1}
	for {
		now, found := nextOrder(classes, scarce.pods, last)
		if !found {
			return topology.Nowhere
		}
		best := topology.Nowhere
		for i := range classes {
			if class := &classes[i]; class.Domains > 0 && orderOf(class, scarce.pods) == now {
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

func orderOf(class *topology.Class, pods int) order {
	if class.Biggest == 0 {
		return order{fit: class.Fit}
	}
	return order{(pods + class.Biggest - 1) / class.Biggest, class.Fit}
}

// nextOrder returns the lowest order above last among the classes that hold the given number of pods.
func nextOrder(classes []topology.Class, pods int, last order) (order, bool) {
	var next order
	found := false
	for i := range classes {
		if classes[i].Fit < pods || classes[i].Domains == 0 {
			continue
		}
		if o := orderOf(&classes[i], pods); o.compare(last) > 0 && (!found || o.compare(next) < 0) {
			next, found = o, true
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

// confirm returns the domain only if it really uses as few sub-domains as its class suggests.
func (s *search) confirm(scarce count, level int, d topology.DomainID, o order) topology.DomainID {
	last := len(s.tree.Levels()) - 1
	if level == last {
		return d
	}
	if level < last-1 {
		return topology.Nowhere // with several levels below, domains have to be compared one by one
	}
	used := make([]int, last+1)
	if spread(s.tree, scarce.view, d, scarce.pods, used); used[last] > o.used {
		return topology.Nowhere
	}
	return d
}
