// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// An update replaces one component after the other, so the first replicas of a base gang may belong to several generations of workers.
// Partners must be of one generation. If the pairing is required, it is therefore not enough that the first replicas share a domain.

// hasPartner reports whether a replica may find a partner: the replica is anchored, a replica of its generation is placed, or a component
// with the other role has a waiting replica of its generation. Only the first among(component) waiting replicas of a component count.
func (p *planner) hasPartner(s *component, ri int, among func(*component) int) bool {
	generation := s.Waiting[ri].Generation
	return len(s.Waiting[ri].Anchor) > 0 ||
		slices.ContainsFunc(p.pairing.At, func(one Paired) bool { return one.Generation == generation }) ||
		slices.ContainsFunc(p.components, func(other *component) bool {
			return other.Role == s.Role.other() &&
				slices.ContainsFunc(other.Waiting[:among(other)], func(r Replica) bool { return r.Generation == generation })
		})
}

// headsPair reports whether every first replica that requires a partner may find a partner; among is as in hasPartner.
func (p *planner) headsPair(among func(*component) int) bool {
	for _, s := range p.components {
		for ri := range s.first() {
			if p.pairRequired(s) && !p.hasPartner(s, ri, among) {
				return false
			}
		}
	}
	return true
}

// refusePartnerless refuses a base gang if some first replica finds no partner; nil when each first replica may find a partner.
func (p *planner) refusePartnerless() *attempt {
	if p.headsPair((*component).now) {
		return nil
	}
	a := newAttempt(p, topology.Nowhere)
	var cause *Refusal
	for si, s := range p.components {
		for ri := range s.first() {
			if p.pairRequired(s) && !p.hasPartner(s, ri, (*component).now) {
				a.refuse(si, ri, a.noPartner(si, ri))
				if cause == nil {
					cause = a.results[si][ri].Refusal
				}
			}
		}
	}
	for si, s := range p.components {
		for ri := range s.Waiting {
			a.results[si][ri].Base = ri < s.first()
			if a.results[si][ri].Refusal == nil {
				a.refuse(si, ri, &Refusal{Code: CodeBaseGangWaits, Gang: baseGang, Level: cause.Level, LevelName: cause.LevelName, Cause: cause})
			}
		}
	}
	return a
}

// noPartner returns the refusal of a replica whose partner is missing.
func (a *attempt) noPartner(si, ri int) *Refusal {
	level := a.p.pairing.Level
	return &Refusal{Code: CodeNoPartner, Gang: a.replicaGroup(si, ri).Name, Level: level, LevelName: a.p.tree.Levels().Name(level),
		Paired: true, Partner: a.p.components[si].Role.other().String()}
}
