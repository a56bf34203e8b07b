// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"container/heap"
	"math"

	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// With at most ExactReplicas that may move, every set of them is in the search. On at most ExactHosts, each set is tried until there is a
// plan, or a proof that there is none.
const (
	ExactReplicas = 16
	ExactHosts    = 64
)

// bounds of a search.
type bounds struct {
	// visits of hosts for lower bounds, and plans on the copy.
	visits, plans int
	// options of one plan.
	options placement.Options
}

var (
	exactBounds = bounds{visits: 50_000_000, plans: 100_000}
	// largeBounds keep a search on a large cluster within some tens of milliseconds.
	largeBounds = bounds{visits: 400_000, plans: 100, options: placement.Options{Budget: 500, PlanBudget: 1_000_000}}
)

const (
	// maxHosts: a larger domain is replaced by those of the next level in it, unless the search is exact.
	maxHosts = 256
	// maxAlike is how often replicas of the same classes may find no place together, in different domains, before they are left out.
	maxAlike = 4
)

// kind is the pods of one shape in the gang.
type kind struct {
	view *topology.View
	need int
	asks []topology.Request
	// gpu is the index of the request for GPUs; -1: none.
	gpu int
	// amounts are what the pod of each entry takes of each request.
	amounts []int64
}

// entry is a pod of a mover on a node.
type entry struct{ mover, pod int32 }

// finder is one search.
type finder struct {
	Place
	tree   *topology.Tree
	gang   Gang
	limits Limits
	bounds bounds
	// every set of the movers is in the search; exact: on a few hosts.
	every, exact bool
	result       Result

	movers []*Replica
	gpus   []int64
	kinds  []kind
	// entries of node n are those from first[n] to first[n+1], each mover's together.
	entries []entry
	first   []int32

	queue queue
	areas map[topology.DomainID]*area
	// scratch is the area of domains that are bounded only; the lists after it are reused.
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
	f.sortPods()
	f.addKinds(gang.Group)
	return f
}

// sortPods sorts the pods of the movers by their nodes.
func (f *finder) sortPods() {
	nodes := make([][]topology.NodeID, len(f.movers))
	most := 0
	for i, r := range f.movers {
		nodes[i] = make([]topology.NodeID, len(r.Pods))
		for k := range r.Pods {
			n, known := f.Cluster.Node(r.Pods[k].Node)
			if !known {
				n = -1
			}
			nodes[i][k] = n
			most = max(most, int(n))
		}
		f.gpus = append(f.gpus, r.GPUs())
	}
	f.first = make([]int32, most+2)
	for _, list := range nodes {
		for _, n := range list {
			if n >= 0 {
				f.first[n+1]++
			}
		}
	}
	for n := 1; n < len(f.first); n++ {
		f.first[n] += f.first[n-1]
	}
	f.entries = make([]entry, f.first[len(f.first)-1])
	at := append([]int32(nil), f.first...)
	for i, list := range nodes {
		for k, n := range list {
			if n >= 0 {
				f.entries[at[n]] = entry{int32(i), int32(k)}
				at[n]++
			}
		}
	}
	f.local = make([]int32, len(f.movers))
}

// on are the numbers of the entries of a node.
func (f *finder) on(n topology.NodeID) (from, to int32) {
	if int(n)+1 >= len(f.first) {
		return 0, 0
	}
	return f.first[n], f.first[n+1]
}

// addKinds counts the pods of the gang by shape.
func (f *finder) addKinds(g *placement.Group) {
	for i := range g.Pods {
		view := f.tree.View(g.Pods[i].Shape)
		known := false
		for k := range f.kinds {
			if f.kinds[k].view == view {
				f.kinds[k].need++
				known = true
			}
		}
		if !known {
			f.kinds = append(f.kinds, f.kindOf(view))
		}
	}
	for _, sub := range g.Groups {
		f.addKinds(sub)
	}
}

func (f *finder) kindOf(view *topology.View) kind {
	k := kind{view: view, need: 1, asks: view.Shape().Requests(), gpu: -1}
	for i, ask := range k.asks {
		if gpus.IsGPU(ask.Name) {
			k.gpu = i
		}
	}
	k.amounts = make([]int64, 0, len(f.entries)*len(k.asks))
	for _, e := range f.entries {
		requests := f.movers[e.mover].Pods[e.pod].Requests
		for _, ask := range k.asks {
			var amount int64
			for i := range requests {
				if requests[i].Name == ask.Name {
					amount = requests[i].Amount
					break
				}
			}
			k.amounts = append(k.amounts, amount)
		}
	}
	return k
}

// candidates are the domains of a level, or of the one that bounds the gang, that may be freed for the gang.
func (f *finder) candidates(level int) []topology.DomainID {
	within, found := f.tree.Find(f.gang.Within)
	if !found {
		return nil
	}
	level = max(level, f.tree.LevelOf(within))
	if level == topology.NoLevel {
		return f.narrow(nil, within)
	}
	var list []topology.DomainID
	for _, d := range f.tree.Domains(level, within) {
		list = f.narrow(list, d)
	}
	return list
}

// narrow adds a domain, or what is in it when it is too large for a search that is not exact.
func (f *finder) narrow(list []topology.DomainID, d topology.DomainID) []topology.DomainID {
	if f.exact || f.tree.Size(d) <= maxHosts {
		return append(list, d)
	}
	children := f.tree.Children(d)
	if len(children) == 0 {
		f.result.Cut = true
		return list
	}
	for _, child := range children {
		list = f.narrow(list, child)
	}
	return list
}

// search looks for the cheapest set of moves. A search that is not exact looks first at the domains of the narrowest level that a part of
// the gang has to be in: one such domain often holds all of it, and its hosts tell more about the cost.
func (f *finder) search() {
	if deepest := deepest(f.gang.Group); !f.exact && deepest > f.gang.Level {
		if f.among(f.candidates(deepest)); f.result.Plan != nil {
			return
		}
		f.queue = nil
	}
	f.among(f.candidates(f.gang.Level))
}

// deepest is the narrowest level that a part of a group has to be in one domain of.
func deepest(g *placement.Group) int {
	level := g.Required
	for _, sub := range g.Groups {
		level = max(level, deepest(sub))
	}
	return level
}

// among looks for the cheapest set of moves that frees one of some domains, best first.
func (f *finder) among(domains []topology.DomainID) {
	for _, d := range domains {
		if least, possible := f.least(d); possible && f.allowed(least) {
			f.push(&state{domain: d, cost: Cost{GPUs: least}})
		}
	}
	for f.queue.Len() > 0 {
		if f.result.Sets++; f.bounds.visits <= 0 || f.bounds.plans <= 0 {
			f.result.Cut = true
			return
		}
		if s := heap.Pop(&f.queue).(*state); f.step(s) {
			return
		}
	}
}

// step looks at one state, and returns whether it is the answer.
func (f *finder) step(s *state) bool {
	if !s.bounded { // count its hosts, and have it wait for its turn
		f.build(&f.scratch, s.domain, false)
		if rest, possible := f.rest(&f.scratch, nil, 0); possible && f.allowed(rest) {
			s.bounded, s.enough, s.cost = true, rest == 0, Cost{GPUs: rest}
			if rest > 0 {
				s.cost.Replicas, s.cost.Priority = 1, math.MinInt32
			}
			f.push(s)
		}
		return false
	}
	if s.enough && (f.exact || len(s.chosen) > 0) && f.try(s) { // without moves, the planner has refused the gang
		return true
	}
	f.expand(s)
	return false
}

// allowed notes a set that takes more GPUs than may restart.
func (f *finder) allowed(gpus int64) bool {
	if f.limits.MaxGPUs <= 0 || gpus <= f.limits.MaxGPUs {
		return true
	}
	if f.result.OverLimit == 0 || gpus < f.result.OverLimit {
		f.result.OverLimit = gpus
	}
	return false
}

// try plans a set on the copy.
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
	found := f.together(f.gang.Group, path, moving, f.bounds.options)
	if found == nil {
		f.failed[signature]++
		return false
	}
	f.result.Plan = f.plan([]topology.Path{path}, moving, found, true)
	return true
}

// moving are the replicas of a set.
func (f *finder) moving(s *state) []*Replica {
	out := make([]*Replica, 0, len(s.chosen))
	for _, l := range s.chosen {
		out = append(out, f.movers[f.areas[s.domain].movers[l]])
	}
	return out
}

// expand queues the sets with one replica more.
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

// extend queues a set with the replica l added.
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
	if next.cost.GPUs += rest; rest > 0 {
		next.cost.Replicas++
	}
	if !f.allowed(next.cost.GPUs) {
		return
	}
	next.chosen = append(append(make([]int32, 0, len(s.chosen)+1), s.chosen...), l)
	f.push(next)
}
