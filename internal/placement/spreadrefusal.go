// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Spreading records that the spread keeps a replica out of domains that have more replicas of its component.
type Spreading struct {
	// Level is the name of the spread level. Domain is the first domain that the replica may go to, and Domains is the number of such
	// domains.
	Level   string
	Domain  topology.Path
	Domains int
	// Replicas is the number of replicas in Domain, and Most is the largest number in any domain.
	Replicas, Most int
}

// spreadOut removes the domains that a required spread forbids for a refused group, and records the reason in the refusal.
func (s *search) spreadOut(r *Refusal, u *unit, domains []topology.DomainID, scope topology.DomainID) []topology.DomainID {
	sp := u.spread
	if sp == nil || !sp.hard {
		return domains
	}
	allowed := slices.DeleteFunc(slices.Clone(domains), func(d topology.DomainID) bool { return !s.allows(u, scope, d) })
	eligible := s.eligibleFor(u, scope)
	if len(allowed) == 0 || len(allowed) == len(eligible) {
		return domains
	}
	r.Spreading = &Spreading{
		Level: r.LevelName, Domain: s.tree.Path(allowed[0]), Domains: len(allowed), Replicas: s.replicas(sp, allowed[0]),
	}
	for _, d := range eligible {
		r.Spreading.Most = max(r.Spreading.Most, s.replicas(sp, d))
	}
	return allowed
}

// spreadText describes the limit that the spread sets for a gang, for example "spread over zones, it goes to b, which has 1 replica where
// another has 2".
func (r *Refusal) spreadText() string {
	for r.Spreading == nil {
		if r = r.Cause; r == nil {
			return ""
		}
	}
	s := r.Spreading
	where := pathText(s.Domain)
	if s.Domains > 1 {
		where = fmt.Sprintf("one of %d that have", s.Domains)
	} else {
		where += ", which has"
	}
	return fmt.Sprintf("spread over %ss, it goes to %s %s where another has %d", name(s.Level), where, plural(s.Replicas, "replica"), s.Most)
}

// spokenFor returns the part of a one-replica unit that the unit's refusal describes: the outermost part that needs a particular domain or
// level.
func spokenFor(u *unit) *unit {
	for len(u.own) == 0 && len(u.subs) == 1 && u.required == topology.NoLevel && u.within == topology.Nowhere {
		u = u.subs[0]
	}
	return u
}
