// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of a plan that computes the replica counts of all domains at once. Beyond these bounds, the replicas are planned a few at a time.
const (
	// mostPairDomains is the maximum number of compared domains: domains in use first, then domains with capacity for both roles.
	mostPairDomains = 64
	// mostPairSets is the maximum number of combinations of replica counts for one domain.
	mostPairSets = 400
	// mostPairSteps is the maximum number of times a combination is added to a sum.
	mostPairSteps = 1_000_000
)

// pairProblem is the problem to solve: how many replicas of each kind go to each domain.
type pairProblem struct {
	a       *attempt
	kinds   []pairKind
	domains []pairDomain
	// same is the view of all pods if they have one shape and counting gives the exact capacity; nil if a search is necessary.
	same *topology.View
	// marker computes the marks of domains. known caches sets by mark, because domains with the same mark have the same sets. tied disables
	// this cache, because some replicas must go to a particular domain below the pairing's level.
	marker *search
	known  map[uint64][][]int
	tied   bool
}

// pairDomain is a domain of the pairing's level.
type pairDomain struct {
	id   topology.DomainID
	mark uint64
	used bool
	// former counts, by kind, the replicas whose Hint is in the domain.
	former []int
	// room is how many pods of the scarcest shape the domain holds.
	room int
	// sets contains each combination of replica counts, by kind, that fits into the domain.
	sets [][]int
}

// newPairProblem builds the problem for the given kinds. It returns false when the problem is too large.
func (a *attempt) newPairProblem(kinds []pairKind) (*pairProblem, bool) {
	q := &pairProblem{a: a, kinds: kinds, marker: newSearch(a.p.cluster, a.p.tree, a.p.options), known: map[uint64][][]int{}}
	q.findShapes()
	q.findDomains()
	for i := range q.domains {
		if !q.findSets(&q.domains[i]) {
			return nil, false
		}
	}
	return q, true
}

// counts returns the pods of one replica of a kind, by shape.
func (q *pairProblem) counts(k *pairKind) []count {
	s := q.a.p.components[k.component]
	return s.kinds[s.of[k.replicas[0]]].counts
}

func (q *pairProblem) findShapes() {
	counting := true
	for i := range q.kinds {
		k := &q.kinds[i]
		s := q.a.p.components[k.component]
		q.tied = q.tied || s.unitLevel(q.a.unit[k.component]) > q.a.p.pairing.Level
		counting = counting && !s.Apart && s.Required <= q.a.p.pairing.Level && !q.tied
		for _, c := range q.counts(k) {
			if !slices.Contains(q.marker.views, c.view) {
				q.marker.views = append(q.marker.views, c.view)
			}
			counting = counting && len(c.view.Shape().Rules()) == 0
		}
	}
	if counting && len(q.marker.views) == 1 {
		q.same = q.marker.views[0]
	}
	slices.SortFunc(q.marker.views, harder)
}

// unitLevel returns the level of the domain that all replicas of a component share.
func (s *component) unitLevel(unit topology.Path) int {
	if !s.one() {
		return topology.NoLevel
	}
	return unit.Level()
}

// findDomains lists the domains that may get replicas, in path order.
func (q *pairProblem) findDomains() {
	a, t := q.a, q.a.p.tree
	wanted := 0
	for i := range q.kinds {
		wanted += len(q.kinds[i].replicas)
	}
	alike := map[uint64]int{}
	for _, id := range t.Domains(a.p.pairing.Level, a.bound) {
		holds := q.mostOf(id)
		if holds == 0 {
			continue
		}
		d := pairDomain{id: id, mark: q.marker.mark(id), used: a.hasPairs(id), former: q.former(id)}
		a.p.cluster.Spend(t.Size(id))
		for _, v := range q.marker.views[:min(1, len(q.marker.views))] {
			d.room = v.Fit(id)
		}
		if !d.used && !slices.ContainsFunc(d.former, func(n int) bool { return n > 0 }) {
			if alike[d.mark]++; alike[d.mark] > wanted {
				continue
			}
		}
		q.domains = append(q.domains, d)
	}
	if len(q.domains) > mostPairDomains {
		q.shortlist()
	}
}

// hasPairs reports whether a domain has replicas of either role, of any generation.
func (a *attempt) hasPairs(d topology.DomainID) bool {
	for at := range a.pairs {
		if at.domain == d {
			return true
		}
	}
	return false
}

// shortlist keeps at most mostPairDomains domains. It ranks domains in use first, then domains with capacity for both roles, then the other
// domains. Of domains with the same rank, it keeps the domains with capacity for the most waiting replicas.
func (q *pairProblem) shortlist() {
	holds := make(map[topology.DomainID]int, len(q.domains))
	for i := range q.domains {
		if holds[q.domains[i].id] = q.mostOf(q.domains[i].id); q.domains[i].used {
			holds[q.domains[i].id] += 1 << 31
		} else if q.holdsBoth(q.domains[i].id) {
			holds[q.domains[i].id] += 1 << 30
		}
	}
	slices.SortStableFunc(q.domains, func(a, b pairDomain) int {
		return cmp.Or(cmp.Compare(holds[b.id], holds[a.id]), cmp.Compare(a.room, b.room))
	})
	q.domains = q.domains[:mostPairDomains]
	slices.SortFunc(q.domains, func(a, b pairDomain) int { return q.a.p.tree.Path(a.id).Compare(q.a.p.tree.Path(b.id)) })
}

// holdsBoth reports whether a domain has capacity for each role, counted separately.
func (q *pairProblem) holdsBoth(d topology.DomainID) bool {
	var holds [2]bool
	for i := range q.kinds {
		k := &q.kinds[i]
		holds[k.role-Prefill] = holds[k.role-Prefill] || q.most(k, d) > 0
	}
	return holds[0] && holds[1]
}

// mostOf returns an upper bound on the number of replicas that a domain holds. It counts each kind separately.
func (q *pairProblem) mostOf(d topology.DomainID) int {
	n := 0
	for i := range q.kinds {
		n += q.most(&q.kinds[i], d)
	}
	return n
}

func (q *pairProblem) most(k *pairKind, d topology.DomainID) int {
	of := kind{replicas: len(k.replicas), counts: q.counts(k)}
	return of.holds(d, nil)
}

// former counts the replicas of each kind whose Hint is in a domain.
func (q *pairProblem) former(d topology.DomainID) []int {
	path, level := q.a.p.tree.Path(d), q.a.p.pairing.Level
	out := make([]int, len(q.kinds))
	for i := range q.kinds {
		for _, ri := range q.kinds[i].replicas {
			if hint := q.a.p.components[q.kinds[i].component].Waiting[ri].Hint; len(hint) > level && hint.Truncate(level).Equal(path) {
				out[i]++
			}
		}
	}
	return out
}

// findSets finds every combination of replica counts by kind that fits into a domain; false if there are too many combinations.
func (q *pairProblem) findSets(d *pairDomain) bool {
	if sets, known := q.known[d.mark]; known && !q.tied {
		d.sets = sets
		return true
	}
	v := make([]int, len(q.kinds))
	if !q.extend(d, v, 0) {
		return false
	}
	q.known[d.mark] = d.sets
	return true
}

// extend tries all replica counts of the kinds from index i on, and adds each combination that fits. It returns false if there are too many
// combinations. When a combination does not fit, extend tries no larger count of that kind.
func (q *pairProblem) extend(d *pairDomain, v []int, i int) bool {
	if i == len(v) {
		d.sets = append(d.sets, slices.Clone(v))
		return len(d.sets) <= mostPairSets
	}
	most := q.most(&q.kinds[i], d.id)
	for v[i] = 0; v[i] <= most && (v[i] == 0 || q.fits(d.id, v)); v[i]++ {
		if !q.extend(d, v, i+1) {
			return false
		}
	}
	v[i] = 0
	return true
}

// fits reports whether a domain holds v[i] replicas of each kind i together.
func (q *pairProblem) fits(d topology.DomainID, v []int) bool {
	if q.same != nil {
		pods := 0
		for i, n := range v {
			pods += n * q.counts(&q.kinds[i])[0].pods
		}
		return pods <= q.same.Fit(d)
	}
	var some []pairMember
	for i, n := range v {
		for _, ri := range q.kinds[i].replicas[:n] {
			some = append(some, pairMember{q.kinds[i].component, ri})
		}
	}
	s := newSearch(q.a.p.cluster, q.a.p.tree, q.a.p.options)
	g, _ := q.a.pairGroup(some)
	found := s.place(prepare(q.a.p.tree, g), d)
	s.giveBack(0)
	return found
}
