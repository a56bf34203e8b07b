// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"container/heap"
	"math"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// If at most ExactReplicas replicas may move, the search includes every set of these replicas. If the topology also has at most ExactHosts
// hosts, the search is exact: it tries each set until it finds a plan or a proof that the set has no plan.
const (
	ExactReplicas = 10
	ExactHosts    = 64
)

// bounds limit the work of a search.
type bounds struct {
	// visits, plans and steps are the maximum numbers of hosts read for lower bounds, of plans made on the cluster copy, and of packing
	// steps.
	visits, plans, steps int
	// options are the options of one plan.
	options placement.Options
}

var (
	// exactBounds keep a search on few hosts within tenths of a second.
	exactBounds = bounds{visits: 2_000_000, plans: 1_000, steps: 2_000_000, options: placement.Options{Budget: 50_000}}
	// largeBounds keep a search on a large cluster within tens of milliseconds.
	largeBounds = bounds{visits: 400_000, plans: 100, steps: 1, options: placement.Options{Budget: 500, PlanBudget: 1_000_000}}
)

const (
	// maxHosts is the maximum number of hosts in a domain for a search that is not exact. Such a search replaces a larger domain by its
	// child domains.
	maxHosts = 256
	// maxAlike limits the failed plans for sets with the same replica classes, counted over all domains. After this number of failures, the
	// search skips further sets with these classes.
	maxAlike = 4
)

// finder holds the state of one search.
type finder struct {
	Place
	tree   *topology.Tree
	gang   Gang
	limits Limits
	bounds bounds
	// every: the search tries every subset of the movers. exact: every is set, and the tree has at most ExactHosts hosts.
	every, exact bool
	result       Result

	movers []*Replica
	// gpus has the number of GPUs of each mover, and largest is the maximum of these numbers.
	gpus    []int64
	largest int64
	kinds   []kind
	// entries are the pods of movers, sorted by node and then by mover. The pods on node n are entries[first[n]:first[n+1]].
	entries []entry
	first   []int32

	queue queue
	areas map[topology.DomainID]*area
	// scratch is a reusable area for domains for which only the lower bound is computed. The slices after it are reusable buffers too.
	scratch area
	local   []int32
	lefts   []int64
	fits    []int
	offers  []offer
	rests   []int32
	shares  []float64
	in      []bool

	classes classes
	failed  map[string]int
}

func newFinder(p Place, gang Gang, movers []*Replica, limits Limits) *finder {
	f := &finder{
		Place: p, tree: p.Cluster.Tree(p.Levels, p.NodeSelector), gang: gang, limits: limits, movers: movers, bounds: largeBounds,
		areas: map[topology.DomainID]*area{}, classes: newClasses(len(movers)), failed: map[string]int{},
	}
	f.every = len(movers) <= ExactReplicas
	if f.exact = f.every && f.tree.Size(topology.Root) <= ExactHosts; f.exact {
		f.bounds = exactBounds
	}
	f.queue.deep = !f.exact
	f.sortPods()
	f.addKinds(gang.Group)
	return f
}

// search finds the cheapest set of moves. A search that is not exact first tries the domains of the narrowest level that a part of the gang
// requires. One such domain often holds the entire gang, and a smaller domain gives a more precise bound of the cost.
func (f *finder) search() {
	if !f.roomy() {
		return
	}
	if deepest := deepest(f.gang.Group); !f.exact && deepest > f.gang.Level {
		if f.among(f.candidates(deepest)); f.result.Plan != nil {
			return
		}
		f.queue.states = nil
	}
	f.among(f.candidates(f.gang.Level))
}

// among searches, best first, for the cheapest set of moves that frees one of the domains.
func (f *finder) among(domains []topology.DomainID) {
	for _, d := range domains {
		if least, possible := f.least(d); possible && f.allowed(least) {
			f.push(&state{domain: d, cost: Cost{GPUs: least}})
		}
	}
	for f.queue.Len() > 0 {
		if f.result.Sets++; f.bounds.visits <= 0 || f.bounds.plans <= 0 || f.bounds.steps <= 0 {
			f.result.Cut = true
			return
		}
		if s := heap.Pop(&f.queue).(*state); f.step(s) {
			return
		}
	}
}

// step processes one state, and reports whether it has found the plan.
func (f *finder) step(s *state) bool {
	if !s.bounded { // count the hosts of its domain, and queue it again by the new bound
		f.build(&f.scratch, s.domain, false)
		if rest, possible := f.rest(&f.scratch, nil, 0); possible && f.allowed(rest) {
			s.bounded, s.enough, s.cost = true, rest == 0, Cost{GPUs: rest}
			if rest > 0 {
				s.cost.Replicas, s.cost.Priority = f.replicas(rest), math.MinInt32
			}
			f.push(s)
		}
		return false
	}
	if s.enough && (f.exact || len(s.chosen) > 0) && f.try(s) { // the planner has refused the gang without moves
		return true
	}
	f.expand(s)
	return false
}

// replicas returns the minimum number of replicas that together have the given number of GPUs.
func (f *finder) replicas(gpus int64) int {
	return int((gpus + max(f.largest, 1) - 1) / max(f.largest, 1))
}

// allowed reports whether the given number of GPUs may restart. It records the lowest number so far that exceeds the limit.
func (f *finder) allowed(gpus int64) bool {
	if f.limits.MaxGPUs <= 0 || gpus <= f.limits.MaxGPUs {
		return true
	}
	if f.result.OverLimit == 0 || gpus < f.result.OverLimit {
		f.result.OverLimit = gpus
	}
	return false
}

// try plans the moves of a set on the cluster copy, and reports whether it found a plan.
func (f *finder) try(s *state) bool {
	moving := f.moving(s)
	if f.exact && !f.mayPack(s.domain, moving) {
		return false
	}
	signature := f.signature(s)
	if !f.every && f.failed[signature] >= maxAlike {
		f.result.Cut = true
		return false
	}
	f.bounds.plans--
	f.result.Plans++
	path := f.tree.Path(s.domain)
	plan := f.planMoves(path, moving)
	if plan == nil {
		f.failed[signature]++
		return false
	}
	if narrow := f.domainOf(plan.Nodes).Truncate(max(deepest(f.gang.Group), path.Level())); len(narrow) > len(path) {
		plan.Domains[0] = narrow
	}
	f.result.Plan = plan
	return true
}

// planMoves plans the gang in a domain and new places for the moving replicas. If [Limits].InOrder is set, each replica must be able to
// move while it runs. planMoves returns nil if it finds no plan.
func (f *finder) planMoves(path topology.Path, moving []*Replica) *Plan {
	found := f.together(f.gang.Group, path, moving, f.bounds.options)
	if found == nil {
		return nil
	}
	plan := f.plan([]topology.Path{path}, moving, found, true)
	if !f.limits.InOrder || plan.inOrder() {
		return plan
	}
	if found = f.whileRunning(f.gang.Group, path, moving, f.bounds.options); found == nil {
		return nil
	}
	return f.plan([]topology.Path{path}, moving, found, true)
}

// moving returns the replicas that a set moves.
func (f *finder) moving(s *state) []*Replica {
	out := make([]*Replica, 0, len(s.chosen))
	for _, l := range s.chosen {
		out = append(out, f.movers[f.areas[s.domain].movers[l]])
	}
	return out
}

// expand queues every set that adds one more replica to the set s.
func (f *finder) expand(s *state) {
	a := f.areas[s.domain]
	if a == nil {
		a = &area{}
		f.build(a, s.domain, true)
		f.areas[s.domain] = a
	}
	if cap(f.in) < len(a.movers) {
		f.in = make([]bool, len(a.movers))
	}
	in := f.in[:len(a.movers)]
	for _, l := range s.chosen {
		in[l] = true
	}
	for l := s.next; int(l) < len(a.movers); l++ {
		if l > s.next && f.alike(a.movers[l-1], a.movers[l]) || !f.every && !f.mayMove(a.movers[l]) {
			continue
		}
		in[l] = true
		f.extend(s, a, in, l)
		in[l] = false
	}
	for _, l := range s.chosen {
		in[l] = false
	}
}

// extend adds the replica l to the set s and queues the result, unless a limit or the lower bound excludes it.
func (f *finder) extend(s *state, a *area, in []bool, l int32) {
	rest, possible := f.rest(a, in, l+1)
	if !possible {
		return
	}
	r := f.movers[a.movers[l]]
	next := &state{domain: s.domain, bounded: true, next: l + 1, enough: rest == 0, own: s.own}
	next.own.GPUs += f.gpus[a.movers[l]]
	if next.own.Replicas++; next.own.Replicas == 1 || r.Priority > next.own.Priority {
		next.own.Priority = r.Priority
	}
	next.cost = next.own
	next.cost.GPUs += rest
	next.cost.Replicas += f.replicas(rest)
	if !f.allowed(next.cost.GPUs) {
		return
	}
	next.chosen = append(append(make([]int32, 0, len(s.chosen)+1), s.chosen...), l)
	f.push(next)
}
