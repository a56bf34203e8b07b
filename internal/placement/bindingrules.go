// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pods with rules about other pods ([topology.Binding]) are placed one by one, because each placed pod changes which hosts the rules allow
// for the next pod. The host-by-host count remains an upper bound, so it still shows which domains to try. For each pod, the first pass
// takes the best host that the rules currently allow. The second pass tries all distributions of the pods, except distributions that use a
// permanently barred host. A distribution is accepted only if the kube-scheduler can bind its pods in every order (ordered).

// bind reads the binding rules of the waiting pods and adds them to the pods' shapes. Until end is called, the rules are updated with every
// change of the plan.
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

// ruled returns a shape with the rules of the plan's bindings.
func (o *Options) ruled(s *topology.Shape) *topology.Shape {
	out := s
	for _, b := range o.bindings {
		if rule := b.Rule(s); rule != nil {
			out = out.With(rule)
		}
	}
	return out
}

// shape returns the shape of the demand's pods, with the rules of this plan.
func (d *demand) shape() *topology.Shape { return d.pods[0].Shape }

// together reports whether the places of the pods depend on other pods of the plan.
func (d *demand) together() bool { return d.shape().Together() }

// excluded returns the rule that currently keeps one more pod of a demand off a host; "" for none. It omits the exclusions that the
// demand's view already counts.
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

// oneByOne places up to n pods of a demand, each on the best host that the rules currently allow, and returns how many it placed.
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

// bestAllowed returns the host for one more pod, -1 for none. It prefers the sub-domain of the previous pod, then the tightest host that
// holds all remaining pods, then the host that holds the most of them, then the first host.
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

// allowed returns how many pods of a demand, at most k, may go to a host before the rules bar the host permanently.
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

// scopeOf returns the domain that must hold a unit: the narrowest of the enclosing domain, the domain to which the unit is tied, and the
// domain of the unit's required level that contains d.
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

// again retries refused replicas, because their rules may require pods that were placed later.
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

// retry retries the individually placed replicas of a component that were refused under rules, and reports whether it placed any.
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

// unallowed finds the hosts of a domain that have capacity for pods of a view but are excluded by a rule, and adds them to the exclusions.
// Before it checks the rules, it places as many of the unit's pods as possible in the domain.
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
