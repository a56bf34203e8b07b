// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// shortlist is the number of domains of a level that are compared by the number of sub-domains that the pods would actually use. The other
// domains are ranked by estimates only.
const shortlist = 32

// choices yields the domains into which a unit may go, best first (docs/placement.md#which-domain). First comes the unit's former domain.
// Then come the levels from the preferred level up to the required level, and at each level the domains in use before other domains.
type choices struct {
	s      *search
	u      *unit
	bound  topology.DomainID
	broad  int
	level  int
	queue  []topology.DomainID
	more   bool
	hinted bool
	tried  []topology.DomainID
}

func (s *search) choices(u *unit, at topology.DomainID) *choices {
	c := &choices{s: s, u: u, bound: at, level: topology.NoLevel - 1}
	if u.within != topology.Nowhere && !s.tree.Within(at, u.within) {
		c.bound = u.within
		if !s.tree.Within(u.within, at) {
			return c
		}
	}
	if u.gone {
		return c
	}
	c.broad = max(u.required, s.tree.LevelOf(c.bound))
	c.level = max(u.preferred, c.broad)
	c.hinted = u.hint == topology.Nowhere
	return c
}

// spreadOver replaces the domains to try by the domains over which the unit is spread.
func (c *choices) spreadOver(scope topology.DomainID) {
	if c.level >= topology.NoLevel {
		c.queue, c.level = c.s.spreadOver(c.u, c.bound, scope), topology.NoLevel-1
	}
}

// next returns the next domain to try; Nowhere when no domain is left.
func (c *choices) next() topology.DomainID {
	for {
		if len(c.queue) > 0 {
			d := c.queue[0]
			c.queue = c.queue[1:]
			return d
		}
		switch {
		case c.level < topology.NoLevel || c.level < c.broad:
			return topology.Nowhere
		case !c.hinted:
			c.hinted = true
			if h := c.u.hint; c.s.tree.LevelOf(h) >= c.broad {
				c.offer(h)
			}
		case c.more:
			c.more = false
			c.queue = c.ranked(0)
			c.queue = c.queue[min(shortlist, len(c.queue)):]
			c.level--
		default:
			c.open()
		}
	}
}

// offer queues a domain ahead of the ranking, if it holds the unit and has not been tried.
func (c *choices) offer(d topology.DomainID) {
	if d != topology.Nowhere && c.s.tree.Within(d, c.bound) && !slices.Contains(c.tried, d) && c.s.holds(c.u, d) {
		c.tried = append(c.tried, d)
		c.queue = append(c.queue, d)
	}
}

// open queues the first domains of the current level: the domains in use, then the best domain from [choices.quick]. If quick finds none,
// open queues the shortlist instead.
func (c *choices) open() {
	for _, n := range c.u.near {
		c.offer(c.s.tree.At(n, c.level))
	}
	if d := c.quick(); d != topology.Nowhere {
		c.tried = append(c.tried, d)
		c.queue = append(c.queue, d)
		return // the rest of the level follows when this one fails
	}
	first := c.ranked(shortlist)
	c.queue = append(c.queue, first...)
	if len(first) == shortlist {
		c.more = true
	} else {
		c.level--
	}
}

// holds reports whether a domain has capacity for each shape of the unit separately.
func (s *search) holds(u *unit, d topology.DomainID) bool {
	for i := range u.total {
		if u.total[i].view.Fit(d) < u.total[i].pods {
			return false
		}
	}
	return true
}
