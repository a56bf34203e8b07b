// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// choice contains a domain and the figures by which it is ranked.
type choice struct {
	domain topology.DomainID
	// ahead is how many of the later replicas the domain can also hold.
	ahead int
	packing
	// spread is, by level, the number of sub-domains that the pods would actually use; nil while this number is only estimated.
	spread []int
}

// packing is how tightly a domain packs pods of the scarcest shape.
type packing struct {
	// used is the minimum number of sub-domains needed; 0 on the narrowest level.
	used int
	// slack is how many more pods the domain holds.
	slack int
}

// packingOf returns the packing of pods in a domain. fit is how many pods the domain holds. biggest is how many pods its largest sub-domain
// holds; 0 on the narrowest level.
func packingOf(pods, fit, biggest int) packing {
	p := packing{slack: fit - pods}
	if biggest > 0 {
		p.used = (pods + biggest - 1) / biggest
	}
	return p
}

// compare sorts the tightest packing first.
func (p packing) compare(o packing) int {
	return cmp.Or(cmp.Compare(p.used, o.used), cmp.Compare(p.slack, o.slack))
}

// compareChoices orders domains, the best first.
func compareChoices(a, b *choice) int {
	if a.spread != nil && b.spread != nil {
		return cmp.Or(cmp.Compare(b.ahead, a.ahead), slices.Compare(a.spread, b.spread), cmp.Compare(a.slack, b.slack))
	}
	return cmp.Or(cmp.Compare(b.ahead, a.ahead), a.packing.compare(b.packing))
}

// ranked returns the domains of the current level that hold the unit, best first, then in path order; at most limit unless limit is 0.
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

// rank computes all figures of one domain except spread, which is expensive.
func (s *search) rank(u *unit, d topology.DomainID) choice {
	one := choice{domain: d}
	come := s.ahead(u, d, &one)
	if len(u.total) == 0 {
		return one
	}
	scarce := u.total[0]
	pods, biggest := scarce.pods, 0
	if come != nil {
		pods += come[0]
	}
	if s.tree.LevelOf(d) < len(s.tree.Levels())-1 {
		biggest = max(scarce.view.Biggest(d), 1)
	}
	one.packing = packingOf(pods, scarce.view.Fit(d), biggest)
	return one
}

// ahead adds to one.ahead the number of later replicas that a domain holds alongside the unit. It returns, for each shape of the unit, how
// many pods these replicas have; nil if there are no later replicas.
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
	for j := range u.total { // several kinds may be counted against the same capacity
		come[j] = min(come[j], max(u.total[j].view.Fit(d)-u.total[j].pods, 0))
	}
	return come
}

// refine sorts the shortlist by the number of sub-domains that each domain would actually use for the scarcest shape, from the broadest to
// the narrowest level. The narrowest level has no sub-domains to compare.
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
