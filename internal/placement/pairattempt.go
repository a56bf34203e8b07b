// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// pairOrder determines when replicas with roles are placed.
type pairOrder int

const (
	// unpaired: replicas with roles are placed like all other replicas. With a required pairing, only the base gang is placed this way.
	unpaired pairOrder = iota
	// pairsFirst: replicas with roles are placed before the other components.
	pairsFirst
	// othersFirst: replicas with roles are placed after the other components.
	othersFirst
)

// attemptPaired is attempt for a graph with roles. It tries several orders, because the best order is not known in advance, and takes the
// first order that places all replicas. Otherwise, it prefers orders with more placed replicas that components need to run, then with more
// placed replicas, then with less imbalance, then earlier orders.
func (p *planner) attemptPaired(bound topology.DomainID, base bool, shared *search) *attempt {
	orders := []pairOrder{pairsFirst, othersFirst, unpaired}
	if p.pairing.Required && (!base || !p.headsPair((*component).first)) {
		orders = orders[:2] // a required pairing places nothing independently of roles
	}
	if !slices.ContainsFunc(p.components, func(s *component) bool { return !p.pairable(s) }) {
		orders = slices.DeleteFunc(orders, func(o pairOrder) bool { return o == othersFirst })
	}
	steps := 0
	if shared != nil {
		steps = shared.steps
	}
	var best, complete *attempt
	p.half(func() { best, complete = p.compareOrders(orders, bound, base, shared) })
	if complete != nil {
		return complete
	}
	if shared != nil {
		shared.steps = steps
	}
	return p.inOrder(bound, base, shared, best.order)
}

// compareOrders tries the orders until an attempt is complete. The complete attempt stays placed. If no attempt is complete, compareOrders
// returns the best attempt, rolled back.
func (p *planner) compareOrders(orders []pairOrder, bound topology.DomainID, base bool, shared *search) (best, complete *attempt) {
	for _, order := range orders {
		p.cluster.Begin()
		a := p.inOrder(bound, base, shared, order)
		if a.complete() {
			p.cluster.Commit()
			return nil, a
		}
		p.cluster.Rollback()
		if best == nil || a.lacking() > best.lacking() || a.lacking() == best.lacking() && a.betterThan(best) {
			best = a
		}
	}
	return best, nil
}

// complete reports whether all replicas that must be placed now are placed.
func (a *attempt) complete() bool {
	for si, s := range a.p.components {
		for ri := range s.now() {
			if len(a.results[si][ri].Pods) == 0 {
				return false
			}
		}
	}
	return a.placed > 0
}

// lacking counts the placed replicas that their components need to run.
func (a *attempt) lacking() (n int) {
	for si, s := range a.p.components {
		for ri := range s.now() {
			if s.lacks(ri) && len(a.results[si][ri].Pods) > 0 {
				n++
			}
		}
	}
	return n
}

// later reports whether the replicas of a component are placed by their role, after all other replicas.
func (a *attempt) later(si int) bool {
	return a.order == othersFirst && a.p.pairable(a.p.components[si])
}

// inOrder places the replicas that fit, in the given order. If the base gang does not fit, it places nothing.
func (p *planner) inOrder(bound topology.DomainID, base bool, shared *search, order pairOrder) *attempt {
	a := newAttempt(p, bound)
	a.order = order
	if order == unpaired && a.placeWhole(base) {
		return a
	}
	if order == pairsFirst {
		a.placeAnchored()
		a.placePairs()
	}
	if base && !a.placePairedBase(shared) {
		a.placed = 0
		return a
	}
	if order == unpaired && p.pairing.Required {
		a.placePairs()
	}
	if !base {
		a.noteHeads()
		a.placeLacking()
	}
	a.placeOthers()
	if order == othersFirst {
		if a.placePairs(); base && !a.headsPlaced() {
			a.placed = 0
			return a
		}
		a.order = pairsFirst
		if !base {
			a.noteHeads()
			a.placeLacking()
		}
		a.placeOthers()
		a.order = order
	}
	a.again()
	a.placeLater()
	return a
}

// placeAnchored places the replicas with an anchor. Their release was interrupted, so their remaining pods can only go to the anchor.
func (a *attempt) placeAnchored() {
	for si, s := range a.p.components {
		for ri := range s.now() {
			if len(s.Waiting[ri].Anchor) > 0 {
				a.placeReplica(si, ri)
			}
		}
	}
}

// placePairedBase places the base gang. Heads that were placed by their roles keep their places.
func (a *attempt) placePairedBase(s *search) bool {
	if a.order == unpaired {
		return a.placeBase(s, anyComponent)
	}
	if a.order == pairsFirst && !a.headsPlaced() {
		return false
	}
	return a.placeBase(s, func(s *component) bool { return !a.p.pairable(s) })
}

// headsPlaced reports whether the heads of all pairable components have places, and marks their replicas as part of the base gang.
func (a *attempt) headsPlaced() bool {
	for si, s := range a.p.components {
		if !a.p.pairable(s) {
			continue
		}
		for ri := range s.first() {
			if len(a.results[si][ri].Pods) == 0 {
				return false
			}
			a.results[si][ri].Base = true
		}
	}
	return true
}

// noteHeads sets Head in the results of the head replicas that were placed by their roles.
func (a *attempt) noteHeads() {
	for si, s := range a.p.components {
		if n := s.head(); n > 1 && a.p.pairable(s) {
			for ri := range n {
				a.results[si][ri].Head = len(a.results[si][ri].Pods) > 0
			}
		}
	}
}

// notePair counts a placed replica in its domain.
func (a *attempt) notePair(si, ri int, path topology.Path) {
	s := a.p.components[si]
	if a.pairs == nil || s.Role == NoRole || len(s.Waiting[ri].Anchor) > 0 { // anchored replicas are counted already
		return
	}
	a.pairs.add(a.p, Paired{s.Role, s.Waiting[ri].Generation, path})
}
