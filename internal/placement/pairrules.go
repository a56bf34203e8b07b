// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/trellis-k8s/trellis/internal/topology"

// roles counts the replicas of a set by role, for one generation. later selects either the replicas to place later or the replicas to place
// now.
func (q *pairProblem) roles(set []int, generation string, later bool) (n [2]int) {
	for i, replicas := range set {
		if k := &q.kinds[i]; k.generation == generation && k.later == later {
			n[k.role-Prefill] += replicas
		}
	}
	return n
}

// generations calls f once for each generation among the kinds.
func (q *pairProblem) generations(f func(generation string)) {
	for i := range q.kinds {
		seen := false
		for j := range i {
			seen = seen || q.kinds[j].generation == q.kinds[i].generation
		}
		if !seen {
			f(q.kinds[i].generation)
		}
	}
}

// allowed reports whether a domain may get the replicas of a set. A kind that is locked to a domain may go only to this domain. If the
// pairing is required, the first replicas in a domain must include both roles.
func (q *pairProblem) allowed(d *pairDomain, set []int, locks []topology.DomainID) bool {
	t := q.a.p.tree
	for i, n := range set {
		if lock := locks[i]; n > 0 && lock != topology.Nowhere && !t.Within(d.id, lock) && !t.Within(lock, d.id) {
			return false
		}
	}
	if !q.a.p.pairing.Required {
		return true
	}
	allowed := true
	q.generations(func(generation string) {
		if _, used := q.a.pairs[pairsAt{generation, d.id}]; used {
			return
		}
		now, later := q.roles(set, generation, false), q.roles(set, generation, true)
		opens := now[0] > 0 && now[1] > 0
		idle := now[0]+now[1] == 0 && (later[0] > 0) == (later[1] > 0)
		allowed = allowed && (opens || idle)
	})
	return allowed
}

// cost returns the value that a set of replicas in a domain adds to the value of a plan.
func (q *pairProblem) cost(d *pairDomain, set []int) pairValue {
	v := pairValue{reached: true}
	q.generations(func(generation string) {
		now, later := q.roles(set, generation, false), q.roles(set, generation, true)
		at, used := q.a.pairs[pairsAt{generation, d.id}]
		v.imbalance += q.a.p.pairing.imbalance(at[0]+now[0]+later[0], at[1]+now[1]+later[1])
		if !used && now[0]+now[1]+later[0]+later[1] > 0 {
			v.opened++
		}
	})
	for i, n := range set {
		v.moved += max(0, n-d.former[i])
	}
	if v.opened > 0 {
		v.room = d.room
	}
	return v
}

// whole reports whether the numbers include, for each component, either the entire head or none of it.
func (q *pairProblem) whole(numbers []int) bool {
	for si, s := range q.a.p.components {
		lacking, placed, left := 0, 0, 0
		for i := range q.kinds {
			if q.kinds[i].component == si && !q.kinds[i].later {
				lacking += q.kinds[i].lacking
				placed += numbers[i]
				left += max(0, q.kinds[i].lacking-numbers[i])
			}
		}
		if lacking > 1 && s.head() > 1 && placed > 0 && left > 0 {
			return false
		}
	}
	return true
}

// rank counts the placed replicas without which components cannot run, then all replicas placed now, then later replicas.
func (q *pairProblem) rank(numbers []int) (rank [3]int) {
	for i, n := range numbers {
		if q.kinds[i].later {
			rank[2] += n
			continue
		}
		rank[0] += min(n, q.kinds[i].lacking)
		rank[1] += n
	}
	return rank
}
