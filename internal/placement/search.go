// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// DefaultBudget is the number of search steps one gang may take: a domain tried, or a number of pods tried on a host. It is some tenths of
// a second at worst.
const DefaultBudget = 200_000

// search looks for capacity for one unit, all or nothing. It goes over a list of goals depth first: choose a domain for a unit, then its
// sub-units in there, then hosts for its own pods. A goal that cannot be met sends the search back to the last choice before it.
//
// The first pass (deep unset) takes hosts as fill gives them and only goes back on domains. The second pass also goes back on hosts, and
// is complete: it ends with an answer, or with the budget.
type search struct {
	cluster *topology.Cluster
	tree    *topology.Tree
	taken   []take
	// steps are left of the budget; spent says that they ran out.
	steps, budget int
	spent         bool
	// options hold the end of the plan; share is where in it this search ends, in comparisons.
	options Options
	share   uint64
	deep    bool
	// listing fills Domains of refusals.
	listing bool
	// quick leaves the second pass out.
	quick bool
	// free says that no unit is tied to a domain, so that domains that are alike are interchangeable.
	free bool
	// views are all shapes of the unit.
	views []*topology.View
	// puts are the replicas that are spread, by where the search has put them; open how many it has yet to put; eligible what it knows of
	// domains.
	puts     map[spreadPut]int
	open     map[*spreading]int
	eligible map[eligibleIn][]topology.DomainID
}

// take is capacity tried for pods on one node.
type take struct {
	demand *demand
	node   topology.NodeID
	pods   int
	// scope is the domain that has to hold the pods: see scopeOf.
	scope topology.DomainID
}

// goal is one thing still to do: choose a domain inside at for a unit, or hosts inside at for the pods of a demand.
type goal struct {
	unit   *unit
	demand *demand
	at     topology.DomainID
	scope  topology.DomainID
	next   *goal
}

func newSearch(c *topology.Cluster, t *topology.Tree, o Options) *search {
	return &search{
		cluster: c, tree: t, steps: o.budget(), budget: o.budget(), listing: o.Domains, options: o, share: c.Work() + o.left(c)/planShare,
	}
}

// planShare: one search takes at most a quarter of what is left of the plan's budget, so that something is left for the others.
const planShare = 4

// place finds capacity for u inside a domain and leaves it taken.
func (s *search) place(u *unit, at topology.DomainID) bool {
	s.free, s.views = true, nil
	s.begin(u)
	s.cluster.Spend(u.size)
	u.all(func(x *unit) {
		s.free = s.free && x.within == topology.Nowhere && x.hint == topology.Nowhere && len(x.near) == 0 && (x.apart == nil || !x.apart.tied)
	})
	for _, c := range u.total {
		s.views = append(s.views, c.view)
	}
	exact := u.demands() <= 1 && !u.together()
	later := 0
	if !exact {
		later = s.steps / 4 * 3
		s.steps -= later
	}
	s.deep, s.spent = false, false
	if s.solve(&goal{unit: u, at: at, scope: at}) {
		return true
	}
	if exact || s.quick {
		s.steps = max(s.steps, 0) + later
		return false
	}
	s.deep, s.spent, s.steps = true, false, max(s.steps, 0)+later
	return s.solve(&goal{unit: u, at: at, scope: at})
}

func (s *search) step() bool {
	s.steps--
	s.spent = s.spent || s.steps < 0 || s.shareSpent()
	return !s.spent
}

// exhaust ends the search because the plan's budget ended.
func (s *search) exhaust() { s.spent, s.share = true, 0 }

// shareSpent reports whether the search has used up its share of the plan's budget.
func (s *search) shareSpent() bool {
	return s.cluster.Work() > s.share
}

func (s *search) solve(g *goal) bool {
	switch {
	case g == nil:
		return s.ordered()
	case g.demand != nil:
		return s.hosts(g)
	}
	return s.domain(g)
}

// domain tries the domains for a unit, best first.
func (s *search) domain(g *goal) bool {
	u := g.unit
	var seen []uint64
	failed := false
	choices := s.choices(u, g.at)
	if u.spread != nil {
		choices.spreadOver(g.scope)
	}
	for d := choices.next(); d != topology.Nowhere; d = choices.next() {
		if !s.step() {
			return false
		}
		if s.deep && !s.enough(u, d) || failed && s.alike(&seen, d, g) {
			continue
		}
		u.domain = d
		s.put(u, d, 1)
		if s.solve(contents(u, d, s.scopeOf(u, d, g.scope), g.next)) {
			return true
		}
		s.put(u, d, -1)
		if s.spent {
			return false
		}
		if !failed {
			s.alike(&seen, d, g)
		}
		failed = true
	}
	return false
}

// contents puts what a unit holds before the other goals.
func contents(u *unit, d, scope topology.DomainID, next *goal) *goal {
	for _, dm := range slices.Backward(u.own) {
		next = &goal{demand: dm, at: d, scope: scope, next: next}
	}
	for _, sub := range slices.Backward(u.subs) {
		next = &goal{unit: sub, at: d, scope: scope, next: next}
	}
	return next
}

// alike reports whether a domain just like d was tried before without success. Two domains are interchangeable when their nodes are alike
// down to the last level and they have the same parent, or when nothing outside of them is left to place.
func (s *search) alike(seen *[]uint64, d topology.DomainID, g *goal) bool {
	if !s.free || d == g.at {
		return false
	}
	s.steps -= s.tree.Size(d) / 16
	mark, known := s.spreadMark(s.mark(d), d)
	if !known {
		return false
	}
	if g.next != nil {
		mark = mix(mark ^ uint64(s.tree.Parent(d)+1))
	}
	if slices.Contains(*seen, mark) {
		return true
	}
	*seen = append(*seen, mark)
	return false
}

// mark sums up a domain so that domains with the same nodes in the same structure get the same number.
func (s *search) mark(d topology.DomainID) uint64 {
	sum := uint64(s.tree.LevelOf(d) + 2)
	for _, n := range s.tree.Nodes(d) {
		sum += mix(s.nodeMark(n))
	}
	for _, child := range s.tree.Children(d) {
		sum += mix(s.mark(child))
	}
	return sum
}

func (s *search) nodeMark(n topology.NodeID) uint64 {
	var mark uint64
	for _, v := range s.views {
		mark = mix(mark ^ v.Mark(n))
	}
	for _, b := range s.options.bindings {
		mark = mix(mark ^ b.Mark(n))
	}
	return mark
}

// mix is the finishing step of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

// hosts places the pods of a demand.
func (s *search) hosts(g *goal) bool {
	n := len(g.demand.pods)
	if !s.step() || g.demand.fit(s.tree, g.at) < n {
		return false
	}
	mark, together := len(s.taken), g.demand.together()
	if s.some(g.demand, g.at, g.scope, n) == n && s.solve(g.next) {
		return true
	}
	s.giveBack(mark)
	if !s.deep || g.next == nil && !together || s.spent {
		return false
	}
	return s.every(g)
}

// some places n pods of a demand, which the domain holds by counting, or as many as its rules allow, and returns how many.
func (s *search) some(dm *demand, at, scope topology.DomainID, n int) int {
	if dm.together() {
		return s.oneByOne(dm, at, scope, n)
	}
	s.fill(dm, at, n)
	return n
}

// take takes capacity for k pods of a demand on a node.
func (s *search) take(dm *demand, n topology.NodeID, k int) {
	s.takeIn(dm, n, topology.Root, k)
}

func (s *search) takeIn(dm *demand, n topology.NodeID, scope topology.DomainID, k int) {
	dm.view.Take(n, k)
	dm.apart.note(n, true)
	s.taken = append(s.taken, take{dm, n, k, scope})
}

// giveBack undoes takes down to a mark.
func (s *search) giveBack(mark int) {
	for len(s.taken) > mark {
		last := s.taken[len(s.taken)-1]
		last.demand.view.Give(last.node, last.pods)
		last.demand.apart.note(last.node, false)
		s.taken = s.taken[:len(s.taken)-1]
	}
}

// settle turns what was taken into hosts per pod, the pods in their order over the hosts in path and name order, so that neighbouring
// ranks sit close.
func (s *search) settle() {
	slices.SortStableFunc(s.taken, func(a, b take) int { return s.compareNodes(a.node, b.node) })
	for _, t := range s.taken {
		for range t.pods {
			t.demand.hosts = append(t.demand.hosts, t.node)
		}
	}
	s.taken = s.taken[:0]
}

func (s *search) compareNodes(a, b topology.NodeID) int {
	if a == b {
		return 0
	}
	if ha, hb := s.tree.Home(a), s.tree.Home(b); ha != hb {
		return s.tree.Path(ha).Compare(s.tree.Path(hb))
	}
	if s.cluster.NodeName(a) < s.cluster.NodeName(b) {
		return -1
	}
	return 1
}

// looksLike reports whether a domain looks like one of those with the marks.
func (s *search) looksLike(marks []uint64, d topology.DomainID) bool {
	return len(marks) > 0 && slices.Contains(marks, s.mark(d))
}
