// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// DefaultBudget is the number of search steps for one gang. A step tries one domain, or one number of pods on a host. In the worst case, a
// search takes a few tenths of a second to use up this budget.
const DefaultBudget = 200_000

// search finds capacity for one unit, all or nothing. It meets a list of goals depth first: choose a domain for a unit, then domains in it
// for the sub-units, then hosts for the unit's own pods. When a goal cannot be met, it backtracks to the previous choice.
//
// The first pass (deep unset) takes hosts as fill chooses them and backtracks on domains only. The second pass backtracks on hosts too. It
// is complete: it ends with an answer, or when the budget is used up.
type search struct {
	cluster *topology.Cluster
	tree    *topology.Tree
	taken   []take
	// budget is the initial number of search steps, and steps is the number of steps left. spent is set when steps or the search's share of
	// the plan's budget are used up.
	steps, budget int
	spent         bool
	// share is the value of Cluster.Work, in comparisons, at which this search stops. options contains the corresponding limit of the whole
	// plan.
	options Options
	share   uint64
	deep    bool
	// listing makes refusals list the compared domains.
	listing bool
	// quick skips the second pass.
	quick bool
	// free: no unit is tied to a domain, so alike domains are interchangeable.
	free bool
	// views are the views of all shapes in the unit.
	views []*topology.View
	// puts counts the spread replicas that this search has put into each domain. open counts, for each spreading, the groups that the
	// search has not placed yet. eligible caches the results of eligibleFor.
	puts     map[spreadPut]int
	open     map[*spreading]int
	eligible map[eligibleIn][]topology.DomainID
}

// take is capacity on one node that the search has taken for pods.
type take struct {
	demand *demand
	node   topology.NodeID
	pods   int
	// scope is the domain that must hold the pods: see scopeOf.
	scope topology.DomainID
}

// goal is one task of the search, inside the domain in the field at: choosing a domain for a unit, or hosts for the pods of a demand.
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

// planShare limits one search to a quarter of the plan's remaining budget, so that the other searches get a share.
const planShare = 4

// place takes capacity for u inside a domain, and reports whether it found enough.
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

// exhaust stops the search because the plan's budget is used up.
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

// contents returns the goals of a unit's sub-units and pods, followed by next.
func contents(u *unit, d, scope topology.DomainID, next *goal) *goal {
	for _, dm := range slices.Backward(u.own) {
		next = &goal{demand: dm, at: d, scope: scope, next: next}
	}
	for _, sub := range slices.Backward(u.subs) {
		next = &goal{unit: sub, at: d, scope: scope, next: next}
	}
	return next
}

// alike reports whether seen contains the mark of a domain that is interchangeable with d; if not, it adds the mark of d. Two domains are
// interchangeable when they contain alike nodes in the same structure, and either have the same parent or no further goal follows.
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

// mark returns a hash of a domain. Domains with alike nodes in the same structure have the same hash.
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

// some places n pods of a demand, or as many as its rules allow, and returns how many it placed. The domain must have capacity for n pods.
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

// giveBack releases the capacity that was taken since len(s.taken) was mark.
func (s *search) giveBack(mark int) {
	for len(s.taken) > mark {
		last := s.taken[len(s.taken)-1]
		last.demand.view.Give(last.node, last.pods)
		last.demand.apart.note(last.node, false)
		s.taken = s.taken[:len(s.taken)-1]
	}
}

// settle assigns a host to each pod. It sorts the hosts with taken capacity by path and name, and assigns the pods to them in order, so
// that pods of adjacent ranks are close to each other.
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

// looksLike reports whether a domain has one of the marks.
func (s *search) looksLike(marks []uint64, d topology.DomainID) bool {
	return len(marks) > 0 && slices.Contains(marks, s.mark(d))
}
