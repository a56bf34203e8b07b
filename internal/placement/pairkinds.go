// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
)

// pairKind groups waiting replicas of one component and one generation that have the same requests.
type pairKind struct {
	component  int
	role       Role
	generation string
	// replicas are indexes into Waiting, in the order of placement. lacking is the number of replicas, from the start of this list, without
	// which the component cannot run.
	replicas []int
	lacking  int
	// later: the replicas must not be placed yet.
	later bool
}

// pairKinds returns the replicas that are still to be placed by their roles.
func (a *attempt) pairKinds() []pairKind {
	var kinds []pairKind
	for si, s := range a.p.components {
		if !a.p.pairable(s) {
			continue
		}
		for ri := range s.Waiting {
			if a.isPairable(si, ri) {
				kinds = a.addPairKind(kinds, si, ri)
			}
		}
	}
	return kinds
}

// isPairable reports whether a replica has no result and no anchor.
func (a *attempt) isPairable(si, ri int) bool {
	r := &a.results[si][ri]
	return r.Refusal == nil && len(r.Pods) == 0 && len(a.p.components[si].Waiting[ri].Anchor) == 0
}

func (a *attempt) addPairKind(kinds []pairKind, si, ri int) []pairKind {
	s := a.p.components[si]
	r := &s.Waiting[ri]
	at := slices.IndexFunc(kinds, func(k pairKind) bool {
		return k.component == si && k.generation == r.Generation && k.later == r.Later && s.of[k.replicas[0]] == s.of[ri]
	})
	if at < 0 {
		at = len(kinds)
		kinds = append(kinds, pairKind{component: si, role: s.Role, generation: r.Generation, later: r.Later})
	}
	kinds[at].replicas = append(kinds[at].replicas, ri)
	if s.lacks(ri) && !r.Later {
		kinds[at].lacking++
	}
	return kinds
}

// mostInTurn is the maximum number of replicas of each role that inTurn returns in next, unless a head has more replicas.
const mostInTurn = 8

// inTurn splits the replicas into the replicas to place next, with both roles in the ratio of the pairing, and the rest. placePairs calls
// it when there are too many replicas to plan all at once.
func (a *attempt) inTurn(kinds []pairKind) (next, rest []pairKind) {
	p := a.p.pairing
	least := min(p.Prefill, p.Decode)
	left := map[Role]int{Prefill: min(p.Prefill/least, mostInTurn), Decode: min(p.Decode/least, mostInTurn)}
	for _, k := range kinds {
		n := min(left[k.role], len(k.replicas))
		if n > 0 && k.lacking > n && a.p.components[k.component].head() > 1 {
			n = k.lacking // the head is placed as a unit
		}
		left[k.role] -= n
		if n > 0 {
			one := k
			one.replicas, one.lacking = k.replicas[:n], min(k.lacking, n)
			next = append(next, one)
		}
		if n < len(k.replicas) {
			k.replicas, k.lacking = k.replicas[n:], max(k.lacking-n, 0)
			rest = append(rest, k)
		}
	}
	return next, rest
}
