// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// fill distributes n pods of a demand over as few sub-domains as possible, level by level, down to the hosts. It takes the tightest
// sub-domain that holds all pods, else the sub-domain that holds the most, and continues with the remaining pods
// (docs/placement.md#which-domain). The domain must hold n pods.
func (s *search) fill(dm *demand, at topology.DomainID, n int) {
	if n > 0 && n == dm.fit(s.tree, at) {
		s.fillUp(dm, at)
		return
	}
	closed := dm.closed(s.tree, at)
	for n > 0 {
		child, node, fit := tightest(s.tree, dm, closed, at, n)
		k := min(n, fit)
		if mark := len(s.taken); child != topology.Nowhere {
			s.fill(dm, child, k)
			for i := mark; closed != nil && i < len(s.taken); i++ {
				dm.close(s.tree, closed, at, s.taken[i].node)
			}
		} else {
			s.take(dm, node, k)
		}
		n -= k
	}
}

// fillUp takes the entire capacity of a domain, so no host has to be chosen.
func (s *search) fillUp(dm *demand, at topology.DomainID) {
	begin := len(s.taken)
	s.tree.AllNodes(at, func(n topology.NodeID) bool {
		if fit := dm.nodeFit(n); fit > 0 {
			s.taken = append(s.taken, take{dm, n, fit, topology.Root})
		}
		return true
	})
	for _, t := range s.taken[begin:] {
		dm.view.Take(t.node, t.pods)
		dm.apart.note(t.node, true)
	}
}

// tightest returns the child domain or node of a domain that holds n pods with the least spare capacity, or else the most pods, and how
// many pods it holds. Of equal hosts, tightest returns the host that the pods prefer. closed contains, per child domain, the capacity that
// does not count because it is on hosts that the replica has already taken.
func tightest(
	t *topology.Tree, dm *demand, closed map[topology.DomainID]int, at topology.DomainID, n int,
) (topology.DomainID, topology.NodeID, int) {
	child, node, best := topology.Nowhere, topology.NodeID(-1), 0
	liked := newLiking(t, dm.view.Shape())
	for _, c := range t.Children(at) {
		fit := dm.view.Fit(c)
		if closed != nil {
			fit -= closed[c]
		}
		if better(fit, best, n) || fit == best && fit > 0 && liked.better(t.OnlyNode(c)) {
			child, best = c, fit
			liked.picked(t.OnlyNode(c))
		}
	}
	nodes := t.Nodes(at)
	fits := dm.view.NodeFits(len(nodes))
	for _, h := range nodes {
		fit := int(fits[h])
		if dm.apart != nil && dm.apart.on[h] {
			continue
		}
		if better(fit, best, n) || fit == best && fit > 0 && liked.better(h, true) {
			child, node, best = topology.Nowhere, h, fit
			liked.picked(h, true)
		}
	}
	return child, node, best
}

// liking compares hosts by the preferences of a shape's pods. It is nil when the pods have no preferences.
type liking struct {
	cluster *topology.Cluster
	shape   *topology.Shape
	best    topology.Preference
	// known: a host was picked, and best is its preference. A picked domain with several hosts is not compared by preference.
	known bool
}

func newLiking(t *topology.Tree, s *topology.Shape) *liking {
	if c := t.Cluster(); c.Prefers(s) {
		return &liking{cluster: c, shape: s}
	}
	return nil
}

// better reports whether the pods prefer a host to the picked host.
func (l *liking) better(h topology.NodeID, single bool) bool {
	return l != nil && l.known && single && l.cluster.Preference(h, l.shape).Better(l.best)
}

func (l *liking) picked(h topology.NodeID, single bool) {
	if l == nil {
		return
	}
	if l.known = single; single {
		l.best = l.cluster.Preference(h, l.shape)
	}
}

// better compares two fits for n pods. A sufficient fit is better than an insufficient fit. Of two sufficient fits the smaller is better,
// of two insufficient fits the larger.
func better(fit, best, n int) bool {
	if fit >= n {
		return best < n || fit < best
	}
	return best < n && fit > best
}

// spread adds to used the number of domains over which fill would distribute n pods, for each level narrower than the given domain. A host
// outside any domain counts as a domain.
func spread(t *topology.Tree, v *topology.View, at topology.DomainID, n int, used []int) {
	level := t.LevelOf(at) + 1
	if level >= len(used) || n == 0 {
		return
	}
	children, nodes := t.Children(at), t.Nodes(at)
	parts := make([]part, 0, len(children)+len(nodes))
	for _, c := range children {
		parts = append(parts, part{c, v.Fit(c)})
	}
	for _, h := range nodes {
		parts = append(parts, part{topology.Nowhere, v.NodeFit(h)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.fit - a.fit })
	for i := 0; i < len(parts) && n > 0 && parts[i].fit > 0; i++ {
		pick := parts[i]
		for j := i + 1; j < len(parts) && parts[j].fit >= n; j++ { // the last sufficient part is the tightest
			if parts[j].fit < pick.fit {
				pick = parts[j]
			}
		}
		k := min(n, pick.fit)
		used[level]++
		if pick.domain != topology.Nowhere {
			spread(t, v, pick.domain, k, used)
		} else {
			for deeper := level + 1; deeper < len(used); deeper++ {
				used[deeper]++
			}
		}
		n -= k
	}
}

// part is a sub-domain, or a host directly in the domain, and the number of pods that it holds.
type part struct {
	domain topology.DomainID
	fit    int
}

// every tries all distributions of a demand's pods over the hosts of a domain, and for each distribution tries to meet the remaining goals.
// Hosts that are alike are filled in order, each with at most as many pods as the previous host, so no distribution is tried twice.
func (s *search) every(g *goal) bool {
	var hosts []candidateHost
	home, last := 0, topology.Nowhere
	s.tree.AllNodes(g.at, func(n topology.NodeID) bool {
		if h := s.tree.Home(n); h != last {
			home, last = home+1, h
		}
		if fit := g.demand.nodeFit(n); fit > 0 {
			hosts = append(hosts, candidateHost{node: n, fit: fit, home: home, alike: s.nodeMark(n)})
		}
		return true
	})
	slices.SortStableFunc(hosts, func(a, b candidateHost) int {
		return cmp.Or(cmp.Compare(a.fit, b.fit), cmp.Compare(a.home, b.home), cmp.Compare(a.alike, b.alike))
	})
	s.steps -= len(hosts) / 16
	total := 0
	for i := range slices.Backward(hosts) {
		total += hosts[i].fit
		hosts[i].total = total
	}
	return s.over(g, hosts, len(g.demand.pods), len(g.demand.pods))
}

// candidateHost is a candidate for the pods of one demand. total is the capacity of this host and all candidates after it.
type candidateHost struct {
	node             topology.NodeID
	fit, home, total int
	alike            uint64
}

// over tries each number of pods, up to the limit, on the first host, and the remaining pods on the hosts after it.
func (s *search) over(g *goal, hosts []candidateHost, left, most int) bool {
	if left == 0 {
		return s.promising(g.next) && s.solve(g.next)
	}
	if len(hosts) == 0 || hosts[0].total < left || !s.step() {
		return false
	}
	first, mark := hosts[0], len(s.taken)
	for k := s.allowed(g.demand, first.node, g.scope, min(first.fit, left, most)); k >= 0; k-- {
		if k > 0 {
			s.takeIn(g.demand, first.node, g.scope, k)
		}
		next := left
		if len(hosts) > 1 && hosts[1].alike == first.alike && hosts[1].home == first.home {
			next = k
		}
		if s.over(g, hosts[1:], left-k, next) {
			return true
		}
		s.giveBack(mark)
		if s.spent {
			return false
		}
	}
	return false
}

// promising reports whether each remaining goal, taken separately, still has capacity.
func (s *search) promising(g *goal) bool {
	for ; g != nil; g = g.next {
		if g.demand != nil {
			if g.demand.view.Fit(g.at) < len(g.demand.pods) {
				return false
			}
			continue
		}
		for _, c := range g.unit.total {
			if c.view.Fit(g.at) < c.pods {
				return false
			}
		}
	}
	return true
}
