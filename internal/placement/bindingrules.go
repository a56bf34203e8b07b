// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pods that rules about other pods bind ([topology.Binding]) are placed one by one, each together with those before it. Counting them host
// by host is an upper bound of what a domain holds, so it still reports which domains are worth a try. The first pass takes for each pod
// the best host that the rules allow as things are. The second pass goes over all ways to spread them, as for other pods. It leaves out
// what is barred permanently, since no order of the pods would allow it. Each way that it finds has to be one in which the kube-scheduler
// binds the pods in every order (ordered).

// bind asks what binds the pods that wait, and gives their shapes the rules. It returns what ends the following.
func (p *planner) bind() (end func()) {
	if len(p.cluster.Binders) == 0 {
		return func() {}
	}
	var shapes []*topology.Shape
	p.eachWaiting(func(r *Replica) {
		for i := range r.Pods {
			if len(shapes) == 0 || shapes[len(shapes)-1] != r.Pods[i].Shape {
				shapes = append(shapes, r.Pods[i].Shape)
			}
		}
	})
	p.cluster.Until(p.options.end)
	p.options.bindings = p.cluster.Bindings(p.tree, shapes)
	if len(p.options.bindings) == 0 {
		p.cluster.Until(0)
		return func() {}
	}
	ruled := map[*topology.Shape]*topology.Shape{}
	p.eachWaiting(func(r *Replica) {
		r.Pods = slices.Clone(r.Pods)
		for i := range r.Pods {
			r.Pods[i].Shape = p.ruled(ruled, r.Pods[i].Shape)
		}
	})
	unfollow := p.cluster.Follow(p.options.bindings)
	return func() {
		unfollow()
		p.cluster.Until(0)
	}
}

func (p *planner) eachWaiting(f func(*Replica)) {
	for _, s := range p.components {
		for i := range s.Waiting {
			f(&s.Waiting[i])
		}
	}
}

func (p *planner) ruled(known map[*topology.Shape]*topology.Shape, s *topology.Shape) *topology.Shape {
	if known[s] == nil {
		known[s] = p.options.ruled(s)
	}
	return known[s]
}

// ruled is a shape with the rules of the plan's bindings.
func (o *Options) ruled(s *topology.Shape) *topology.Shape {
	out := s
	for _, b := range o.bindings {
		if rule := b.Rule(s); rule != nil {
			out = out.With(rule)
		}
	}
	return out
}

// shape is that of the demand's pods, with the rules of this plan.
func (d *demand) shape() *topology.Shape { return d.pods[0].Shape }

// together reports whether where the pods go depends on where others of the plan are.
func (d *demand) together() bool { return d.shape().Together() }

// excluded describes what keeps one more pod of a demand off a host now, in addition to what its view counts; "" for nothing.
func (s *search) excluded(dm *demand, n topology.NodeID, scope topology.DomainID) string {
	for _, b := range s.options.bindings {
		if why := b.Excludes(dm.shape(), n, scope); why != "" {
			return why
		}
	}
	return ""
}

func (s *search) barred(dm *demand, n topology.NodeID, scope topology.DomainID) bool {
	return slices.ContainsFunc(s.options.bindings, func(b topology.Binding) bool { return b.Bars(dm.shape(), n, scope) != "" })
}

// oneByOne places up to n pods of a demand, each on the best host that the rules allow as things are, and returns how many it placed.
func (s *search) oneByOne(dm *demand, at, scope topology.DomainID, n int) (placed int) {
	last := topology.Nowhere
	for placed < n {
		s.steps -= s.tree.Size(at) / 16
		node := s.bestAllowed(dm, at, scope, n-placed, last)
		if node < 0 {
			return placed
		}
		last = s.tree.Home(node)
		for placed < n && dm.nodeFit(node) > 0 && s.excluded(dm, node, scope) == "" {
			s.takeIn(dm, node, scope, 1)
			placed++
		}
		if s.shareSpent() {
			return placed
		}
	}
	return placed
}

// bestAllowed is the host that one more pod goes to: in the sub-domain of the one before it, then the tightest that holds all that are
// left, then the fullest, then the first; -1 for none.
func (s *search) bestAllowed(dm *demand, at, scope topology.DomainID, left int, last topology.DomainID) topology.NodeID {
	best, most, near := topology.NodeID(-1), 0, false
	s.tree.AllNodes(at, func(n topology.NodeID) bool {
		fit := dm.nodeFit(n)
		same := s.tree.Home(n) == last
		if fit == 0 || near && !same || near == same && !better(fit, most, left) || s.excluded(dm, n, scope) != "" {
			return true
		}
		best, most, near = n, fit, same
		return true
	})
	return best
}

// allowed is how many of at most k pods of a demand the rules do not bar from a host permanently.
func (s *search) allowed(dm *demand, n topology.NodeID, scope topology.DomainID, k int) int {
	if !dm.together() {
		return k
	}
	some := 0
	for ; some < k && !s.barred(dm, n, scope); some++ {
		dm.view.Take(n, 1)
	}
	dm.view.Give(n, some)
	return some
}

// scopeOf is the domain that has to hold a unit whichever one it is placed in: of its required level, or the one that it is tied to.
func (s *search) scopeOf(u *unit, d, around topology.DomainID) topology.DomainID {
	scope := around
	if u.within != topology.Nowhere && s.tree.Within(u.within, scope) {
		scope = u.within
	}
	if at := s.tree.At(d, u.required); at != topology.Nowhere && s.tree.Within(at, scope) {
		scope = at
	}
	return scope
}

// again places what was refused while others were placed after it, which may be those that its rules ask for.
func (a *attempt) again() {
	if len(a.p.options.bindings) == 0 || a.placed == 0 {
		return
	}
	for progress := true; progress && !a.p.over(); {
		progress = false
		for si := range a.p.components {
			progress = a.retry(si) || progress
		}
	}
}

// retry places the replicas of a component that were refused by themselves, and returns whether it placed one.
func (a *attempt) retry(si int) bool {
	refusals := make([]*Refusal, len(a.results[si]))
	for ri := range a.results[si] {
		if r := a.results[si][ri].Refusal; r != nil && r.Ruled && !a.results[si][ri].Head && !a.results[si][ri].Base {
			refusals[ri], a.results[si][ri].Refusal = r, nil
		}
	}
	some := false
	for ri, r := range refusals {
		if r == nil {
			continue
		}
		a.placeReplica(si, ri)
		some = some || a.results[si][ri].Refusal == nil
	}
	return some
}

// unallowed counts the hosts of a domain that have capacity for pods of a view and are kept from them by the rules, once as many as can be
// are there.
func (s *search) unallowed(u *unit, d topology.DomainID, view *topology.View, hosts *exclusions) {
	at := slices.IndexFunc(u.own, func(dm *demand) bool { return dm.view == view && len(dm.shape().Rules()) > 0 })
	if at < 0 {
		return
	}
	dm, scope, before := u.own[at], s.scopeOf(u, d, topology.Root), s.here()
	var open []topology.NodeID
	s.tree.AllNodes(d, func(n topology.NodeID) bool {
		if dm.view.NodeFit(n) > 0 {
			open = append(open, n)
		}
		return true
	})
	s.packPart(u, d)
	for _, n := range open {
		if why := s.excluded(dm, n, scope); why != "" {
			hosts.add(topology.Exclusion{Kind: topology.KindRule, Detail: why})
		} else if e, full := dm.view.Why(n); full && e.Kind == topology.KindRule {
			hosts.add(e)
		}
	}
	s.back(before)
}
