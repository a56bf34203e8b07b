// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// sumsPerComparison is the number of sums that take as long as one comparison of the plan's budget.
const sumsPerComparison = 8

// pairSums combines one set of each domain. A sum is a combination's replica count per kind. pairSums keeps the best combination per sum.
type pairSums struct {
	q *pairProblem
	// weights turn a sum into its index in values. numbers is the inverse: it contains the replica counts of each index.
	weights []int
	numbers [][]int
	values  []pairValue
	// from contains, by domain and index of a sum, the index of the domain's set in the best combination.
	from [][]int16
}

// pairValue is the cost of one combination of sets. Combinations with the same sum are compared by their costs, field by field.
type pairValue struct {
	reached bool
	// imbalance is the sum over the domains; opened counts domains that had no replica before; moved counts replicas that do not return to
	// their former domain; room is the capacity of the opened domains.
	imbalance, opened, moved, room int
}

func (v *pairValue) compare(o *pairValue) int {
	return cmp.Or(cmp.Compare(v.imbalance, o.imbalance), cmp.Compare(v.opened, o.opened), cmp.Compare(v.moved, o.moved),
		cmp.Compare(v.room, o.room))
}

// steps returns an upper bound on how often sum adds a set to a sum, for one choice of locks.
func (q *pairProblem) steps() int {
	states, sets := 1, 0
	for i := range q.kinds {
		if states *= len(q.kinds[i].replicas) + 1; states > mostPairSteps {
			return states
		}
	}
	for i := range q.domains {
		sets += len(q.domains[i].sets)
	}
	return states * max(sets, 1)
}

// pairPlan contains the number of replicas of each kind for each domain, and the quality of these numbers.
type pairPlan struct {
	sets [][]int
	// rank is compared before value. It counts the placed replicas without which components cannot run, then all placed replicas, then the
	// replicas to place later.
	rank  [3]int
	value pairValue
}

func (p *pairPlan) betterThan(o *pairPlan) bool {
	if o == nil {
		return true
	}
	if c := slices.Compare(p.rank[:], o.rank[:]); c != 0 {
		return c > 0
	}
	return p.value.compare(&o.value) < 0
}

// solve finds the best plan; false when there are too many combinations.
func (q *pairProblem) solve() (*pairPlan, bool) {
	choices := q.locks()
	if len(choices) > mostPairSteps || q.steps() > mostPairSteps/max(len(choices), 1) {
		return nil, false
	}
	var best *pairPlan
	for _, locks := range choices {
		if one := q.sum(locks); one != nil && one.betterThan(best) {
			best = one
		}
	}
	return best, true
}

// locks returns all choices of domains to which kinds are locked. A choice has one entry per kind. If a component's replicas must share a
// domain, all of its kinds have the same entry. The entry of any other kind is Nowhere.
func (q *pairProblem) locks() [][]topology.DomainID {
	a, t := q.a, q.a.p.tree
	choices := [][]topology.DomainID{make([]topology.DomainID, len(q.kinds))}
	for i := range q.kinds {
		choices[0][i] = topology.Nowhere
	}
	for si, s := range a.p.components {
		if !s.one() || !slices.ContainsFunc(q.kinds, func(k pairKind) bool { return k.component == si }) {
			continue
		}
		var domains []topology.DomainID
		if unit := a.unit[si]; len(unit) > 0 {
			if d, found := t.Find(unit); found {
				domains = append(domains, d)
			}
		} else {
			for i := range q.domains {
				if d := t.At(q.domains[i].id, min(s.Required, a.p.pairing.Level)); !slices.Contains(domains, d) {
					domains = append(domains, d)
				}
			}
		}
		if choices = q.lock(choices, si, domains); len(choices) > mostPairSteps {
			break
		}
	}
	return choices
}

// lock returns each choice once per domain, with the kinds of component si locked to this domain.
func (q *pairProblem) lock(choices [][]topology.DomainID, si int, domains []topology.DomainID) (out [][]topology.DomainID) {
	for _, choice := range choices {
		for _, d := range domains {
			one := slices.Clone(choice)
			for i := range q.kinds {
				if q.kinds[i].component == si {
					one[i] = d
				}
			}
			out = append(out, one)
		}
	}
	return out
}

// sum computes the best plan for one choice of locks, domain by domain.
func (q *pairProblem) sum(locks []topology.DomainID) *pairPlan {
	s := &pairSums{q: q, weights: make([]int, len(q.kinds))}
	states := 1
	for i := range q.kinds {
		s.weights[i] = states
		states *= len(q.kinds[i].replicas) + 1
	}
	s.numbers = make([][]int, states)
	for at := range s.numbers {
		s.numbers[at] = make([]int, len(q.kinds))
		for i := range q.kinds {
			s.numbers[at][i] = at / s.weights[i] % (len(q.kinds[i].replicas) + 1)
		}
	}
	s.values = make([]pairValue, states)
	s.values[0].reached = true
	for i := range q.domains {
		s.add(&q.domains[i], locks)
	}
	return s.best()
}

// add adds each set of a domain to each sum of the preceding domains.
func (s *pairSums) add(d *pairDomain, locks []topology.DomainID) {
	next := make([]pairValue, len(s.values))
	from := make([]int16, len(s.values))
	for i, set := range d.sets {
		if s.q.a.p.over() || !s.q.allowed(d, set, locks) {
			continue
		}
		s.q.a.p.cluster.Spend(len(s.values) / sumsPerComparison)
		cost := s.q.cost(d, set)
		offset := 0
		for k, n := range set {
			offset += n * s.weights[k]
		}
		for at := range s.values {
			if !s.values[at].reached || !s.room(at, set) {
				continue
			}
			one := s.values[at].plus(&cost)
			if to := &next[at+offset]; !to.reached || one.compare(to) < 0 {
				*to, from[at+offset] = one, int16(i)
			}
		}
	}
	s.values, s.from = next, append(s.from, from)
}

// room reports whether a sum plus a set does not exceed the number of waiting replicas of any kind.
func (s *pairSums) room(at int, set []int) bool {
	for i, n := range set {
		if n > 0 && s.numbers[at][i]+n > len(s.q.kinds[i].replicas) {
			return false
		}
	}
	return true
}

func (v *pairValue) plus(o *pairValue) pairValue {
	return pairValue{true, v.imbalance + o.imbalance, v.opened + o.opened, v.moved + o.moved, v.room + o.room}
}

// best returns the best plan among all sums.
func (s *pairSums) best() *pairPlan {
	var best *pairPlan
	end := 0
	for at := range s.values {
		if !s.values[at].reached || !s.q.whole(s.numbers[at]) {
			continue
		}
		one := &pairPlan{rank: s.q.rank(s.numbers[at]), value: s.values[at]}
		if one.betterThan(best) {
			best, end = one, at
		}
	}
	if best == nil {
		return nil
	}
	best.sets = make([][]int, len(s.q.domains))
	for i := range slices.Backward(s.q.domains) {
		set := s.q.domains[i].sets[s.from[i][end]]
		best.sets[i] = set
		for k, n := range set {
			end -= n * s.weights[k]
		}
	}
	return best
}
