// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// shortlist is how many domains of a level are compared by how they would really be used; the rest follows by the cheap figures.
const shortlist = 32

// choices hands out the domains in which a unit may go, best first (docs/placement.md#which-domain): its former domain; then level by
// level from the preferred one up to the required one, at each level the domains in use before the others.
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

// spreadOver replaces the domains to try by those that the unit is spread over.
func (c *choices) spreadOver(scope topology.DomainID) {
	if c.level >= topology.NoLevel {
		c.queue, c.level = c.s.spreadOver(c.u, c.bound, scope), topology.NoLevel-1
	}
}

// next returns the next domain to try; Nowhere when there is none left.
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

// offer queues a domain that is to be tried before the ranking.
func (c *choices) offer(d topology.DomainID) {
	if d != topology.Nowhere && c.s.tree.Within(d, c.bound) && !slices.Contains(c.tried, d) && c.s.holds(c.u, d) {
		c.tried = append(c.tried, d)
		c.queue = append(c.queue, d)
	}
}

// open queues what is tried first of the current level.
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

// holds reports whether a domain has capacity for each shape of the unit taken by itself.
func (s *search) holds(u *unit, d topology.DomainID) bool {
	for i := range u.total {
		if u.total[i].view.Fit(d) < u.total[i].pods {
			return false
		}
	}
	return true
}

// choice is what a domain is ranked by.
type choice struct {
	domain topology.DomainID
	// ahead is how much of what is still to come it holds too.
	ahead int
	// used is the least number of sub-domains it needs, then the real numbers per level.
	used   int
	spread []int
	// slack is what it holds of the scarcest shape beyond that.
	slack int
}

func compareChoices(a, b *choice) int {
	if a.ahead != b.ahead {
		return b.ahead - a.ahead
	}
	if a.spread != nil && b.spread != nil {
		if c := slices.Compare(a.spread, b.spread); c != 0 {
			return c
		}
	} else if a.used != b.used {
		return a.used - b.used
	}
	return a.slack - b.slack
}

// ranked returns the domains of the current level that hold the unit, best first; at most limit of them unless that is 0. Domains are
// looked at in path order and ties keep it.
func (c *choices) ranked(limit int) []topology.DomainID {
	var best []choice
	for _, d := range c.s.tree.Domains(c.level, c.bound) {
		if len(c.tried) > 0 && slices.Contains(c.tried, d) || !c.s.holds(c.u, d) {
			continue
		}
		one := c.s.rank(c.u, d)
		full := limit > 0 && len(best) == limit
		if full && compareChoices(&best[limit-1], &one) <= 0 {
			continue
		}
		if full {
			best = best[:limit-1]
		}
		at := len(best)
		for at > 0 && compareChoices(&best[at-1], &one) > 0 {
			at--
		}
		best = slices.Insert(best, at, one)
	}
	if limit > 0 {
		c.refine(best)
	}
	domains := make([]topology.DomainID, len(best))
	for i := range best {
		domains[i] = best[i].domain
	}
	return domains
}

// rank works out the cheap figures of one domain.
func (s *search) rank(u *unit, d topology.DomainID) choice {
	one := choice{domain: d}
	come := s.ahead(u, d, &one)
	if len(u.total) == 0 {
		return one
	}
	scarce := u.total[0]
	used := scarce.pods
	if come != nil {
		used += come[0]
	}
	one.slack = scarce.view.Fit(d) - used
	if s.tree.LevelOf(d) < len(s.tree.Levels())-1 {
		biggest := max(scarce.view.Biggest(d), 1)
		one.used = (used + biggest - 1) / biggest
	}
	return one
}

// ahead counts the replicas to come that a domain holds alongside the unit, and returns how many pods of each shape of the unit they bring.
func (s *search) ahead(u *unit, d topology.DomainID, one *choice) []int {
	if len(u.want) == 0 {
		return nil
	}
	come := make([]int, len(u.total))
	for i := range u.want {
		n := u.want[i].holds(d, u.total)
		one.ahead += n
		for j := range u.total {
			come[j] += n * podsOf(u.want[i].counts, u.total[j].view)
		}
	}
	for j := range u.total { // several kinds may count on the same capacity
		come[j] = min(come[j], max(u.total[j].view.Fit(d)-u.total[j].pods, 0))
	}
	return come
}

// refine orders the shortlist by the sub-domains each would really use, level by level from broad to narrow, counted for the scarcest
// shape. It has nothing to do at the narrowest level.
func (c *choices) refine(best []choice) {
	t, u := c.s.tree, c.u
	if len(best) < 2 || len(u.total) == 0 || c.level >= len(t.Levels())-1 {
		return
	}
	for i := range best {
		best[i].spread = c.s.spreadOf(u, best[i].domain)
	}
	slices.SortStableFunc(best, func(a, b choice) int { return compareChoices(&a, &b) })
}

// spreadOf counts, per level, the sub-domains that the scarcest shape of a unit would use in a domain.
func (s *search) spreadOf(u *unit, d topology.DomainID) []int {
	used := make([]int, len(s.tree.Levels()))
	if len(u.total) == 0 {
		return used
	}
	scarce := u.total[0]
	n := scarce.pods
	if come := s.ahead(u, d, &choice{}); come != nil {
		n += come[0]
	}
	spread(s.tree, scarce.view, d, n, used)
	return used
}
