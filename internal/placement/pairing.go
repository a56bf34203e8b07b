// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Role is the role of a component's replicas in a disaggregated deployment.
type Role int

// The roles of replicas. KV caches are transferred from Prefill to Decode replicas.
const (
	// NoRole: the replica transfers no caches.
	NoRole Role = iota
	Prefill
	Decode
)

func (r Role) other() Role { return Prefill + Decode - r }

// String returns the component type of the role.
func (r Role) String() string { return [...]string{"", "prefill", "decode"}[r] }

// Pairing places the replicas of both roles in the same domains (docs/placement.md#prefill-alongside-decode).
type Pairing struct {
	// Level is the level of these domains.
	Level int
	// Required: the first replicas placed in a domain must include at least one of each role.
	Required bool
	// Prefill and Decode are the desired numbers of replicas of each role, over all components. If either is 0, nothing is paired.
	Prefill, Decode int
	// At lists the replicas that are placed and not being replaced.
	At []Paired
}

// Paired is a placed replica with a role. Only replicas of the same generation are partners.
type Paired struct {
	Role       Role
	Generation string
	Domain     topology.Path
}

// pairing returns the pairing of the graph. It returns nil if nothing is paired, or if the graph domain is at least as narrow as the
// pairing's level, so that all replicas share a domain anyway.
func (g *Demand) pairing() *Pairing {
	p := g.Pairing
	if p == nil || p.Prefill <= 0 || p.Decode <= 0 || p.Level <= g.Required || p.Level < 0 || p.Level >= len(g.Levels) {
		return nil
	}
	return p
}

// pairsAt identifies a domain of the pairing's level and a generation of replicas. The domain is Nowhere for replicas outside any domain.
type pairsAt struct {
	generation string
	domain     topology.DomainID
}

// pairs counts the replicas of both roles by domain and generation.
type pairs map[pairsAt][2]int

// pairsOf counts the replicas that are placed or anchored.
func (p *planner) pairsOf() pairs {
	if p.pairing == nil {
		return nil
	}
	out := pairs{}
	for _, one := range p.pairing.At {
		out.add(p, one)
	}
	for _, s := range p.components {
		for i := range s.Waiting {
			if anchor := s.Waiting[i].Anchor; len(anchor) > 0 {
				out.add(p, Paired{s.Role, s.Waiting[i].Generation, anchor})
			}
		}
	}
	return out
}

// add counts a replica with a role.
func (c pairs) add(p *planner, one Paired) {
	if one.Role == NoRole {
		return
	}
	at := pairsAt{one.Generation, topology.Nowhere}
	if len(one.Domain) > p.pairing.Level {
		if d, found := p.tree.Find(one.Domain.Truncate(p.pairing.Level)); found {
			at.domain = d
		}
	}
	n := c[at]
	n[one.Role-Prefill]++
	c[at] = n
}

// inUse returns the domains with replicas of a generation, in path order.
func (a *attempt) inUse(generation string) (domains []topology.DomainID) {
	for at := range a.pairs {
		if at.generation == generation && at.domain != topology.Nowhere {
			domains = append(domains, at.domain)
		}
	}
	slices.SortFunc(domains, func(x, y topology.DomainID) int { return a.p.tree.Path(x).Compare(a.p.tree.Path(y)) })
	return domains
}

// imbalance returns how far the shares of the two roles in a domain differ. For p of P prefill replicas and d of D decode replicas, it is
// |p/P - d/D|, times P times D.
func (p *Pairing) imbalance(prefill, decode int) int {
	return abs(prefill*p.Decode - decode*p.Prefill)
}

func abs(n int) int { return max(n, -n) }

// imbalance returns the sum of the imbalances of all domains and generations. least is the smallest possible sum if every domain could hold
// any replica.
func (a *attempt) imbalance() (sum, least int) {
	if a.pairs == nil {
		return 0, 0
	}
	totals := map[string][2]int{}
	for at, n := range a.pairs {
		if at.domain == topology.Nowhere {
			sum += a.p.pairing.imbalance(n[0], 0) + a.p.pairing.imbalance(0, n[1])
		} else {
			sum += a.p.pairing.imbalance(n[0], n[1])
		}
		total := totals[at.generation]
		totals[at.generation] = [2]int{total[0] + n[0], total[1] + n[1]}
	}
	for _, n := range totals {
		least += a.p.pairing.imbalance(n[0], n[1])
	}
	return sum, least
}

// balanced reports whether no other plan for the same number of replicas has less imbalance.
func (a *attempt) balanced() bool {
	sum, least := a.imbalance()
	return sum == least
}

// pairable reports whether a component is placed by its role. A spread component is not placed by its role, because spreading contradicts
// pairing.
func (p *planner) pairable(s *component) bool {
	return p.pairing != nil && s.Role != NoRole && s.Spread == nil && !p.gone(s.Required)
}

// pairRequired reports whether the replicas of a component may go only to domains that the pairing allows.
func (p *planner) pairRequired(s *component) bool { return p.pairable(s) && p.pairing.Required }
