// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// ordered reports whether the kube-scheduler can bind the taken pods one after the other. At least one order must satisfy the rules within
// the pods' domains. In addition, no order may get stuck on the planned hosts, because the kube-scheduler may try pods in any order. The
// kube-scheduler retries a refused pod after it has bound other pods, so an order gets stuck only when all remaining pods are refused.
func (s *search) ordered() bool {
	if len(s.options.bindings) == 0 {
		return true
	}
	waiting := s.takenTogether()
	if len(waiting) == 0 {
		return true
	}
	for _, t := range waiting {
		t.demand.view.Give(t.node, t.pods)
	}
	o := s.newOrders(waiting)
	if !o.someOrder() {
		for _, t := range o.waiting {
			t.demand.view.Take(t.node, t.pods)
		}
		return false
	}
	way := slices.Clone(o.way)
	o.back(0)
	every := !o.gets(o.all(), (*orders).stuckTied)
	for _, i := range way {
		o.put(i)
	}
	if s.shareSpent() {
		s.exhaust()
	}
	return every && !s.spent
}

// takenTogether returns the taken pods to which rules about other pods apply, with one entry per demand and host.
func (s *search) takenTogether() (list []take) {
	at := map[take]int{}
	for _, t := range s.taken {
		key := take{demand: t.demand, node: t.node}
		i, known := at[key]
		switch {
		case !t.demand.together():
		case known:
			list[i].pods += t.pods
		default:
			at[key], list = len(list), append(list, t)
		}
	}
	return list
}

// maxStates is the maximum number of states that one search through the orders examines. A state is a set of bound pods. Beyond the
// maximum, the search for one possible order fails. A check of all orders then assumes that every order works, unless some order is known
// to fail.
const maxStates = 2048

// orders searches the orders in which pods can be bound. At first, no pod is on its host.
type orders struct {
	search *search
	// waiting counts, by demand and host, the pods that are not on their hosts yet. way lists the pods that are on their hosts in the order
	// of binding, as indexes of waiting.
	waiting []take
	way     []int
	by      []topology.Order
	states  int
	seen    map[uint64]bool
	// doubted: [topology.Order].Orderly has found that some order of the current pods fails. stuck returns this result if it cannot examine
	// all states.
	doubted bool
}

func (s *search) newOrders(taken []take) *orders {
	o := &orders{search: s, waiting: slices.Clone(taken)}
	pods := make([]topology.Waiting, 0, len(taken))
	for _, t := range taken {
		pods = append(pods, topology.Waiting{Shape: t.demand.shape(), Node: t.node, Scope: t.scope, Pods: t.pods})
	}
	for _, b := range s.options.bindings {
		if by := b.Order(pods); by != nil {
			o.by = append(o.by, by)
		}
	}
	return o
}

func (o *orders) all() []int {
	list := make([]int, len(o.waiting))
	for i := range list {
		list[i] = i
	}
	return list
}

func (o *orders) put(i int) {
	t := &o.waiting[i]
	t.demand.view.Take(t.node, 1)
	t.pods--
	o.way = append(o.way, i)
}

// back takes pods off their hosts, the last bound pod first, until count pods are still on their hosts.
func (o *orders) back(count int) {
	for ; len(o.way) > count; o.way = o.way[:len(o.way)-1] {
		t := &o.waiting[o.way[len(o.way)-1]]
		t.demand.view.Give(t.node, 1)
		t.pods++
	}
}

// look counts the current state and reports whether to examine it. It returns false for a state that was examined before, and when
// maxStates or the search's share of the budget is used up.
func (o *orders) look(some []int) bool {
	o.states++
	o.search.steps -= 1 + len(some)/16
	if o.states > maxStates || o.search.shareSpent() {
		return false
	}
	state := uint64(0)
	for _, i := range some {
		state = mix(state ^ uint64(i)<<32 ^ uint64(o.waiting[i].pods))
	}
	for _, by := range o.by {
		state = mix(state ^ by.State())
	}
	if o.seen[state] {
		return false
	}
	o.seen[state] = true
	return true
}

// someOrder puts the pods on their hosts in some order that the rules allow within the pods' domains, and reports whether there is such an
// order.
func (o *orders) someOrder() bool {
	o.greedily(func(i int) bool { return o.every(i, topology.Order.Free) })
	o.greedily(func(int) bool { return true })
	if o.left(o.all()) == nil {
		return true
	}
	o.back(0)
	return !o.gets(o.all(), (*orders).unfinished)
}

// greedily puts the pods for which wanted returns true on their hosts, until the rules allow no further such pod.
func (o *orders) greedily(wanted func(i int) bool) {
	for progress := true; progress; {
		progress = false
		for i := range o.waiting {
			for t := &o.waiting[i]; t.pods > 0 && o.search.excluded(t.demand, t.node, t.scope) == "" && wanted(i); {
				o.put(i)
				progress = true
			}
		}
		o.search.steps -= len(o.waiting) / 16
	}
}

// left returns the given pods that are not on their hosts yet.
func (o *orders) left(some []int) (list []int) {
	for _, i := range some {
		if o.waiting[i].pods > 0 {
			list = append(list, i)
		}
	}
	return list
}

// gets reports whether into(o, tied) is true for any group of mutually tied pods among the given pods.
func (o *orders) gets(some []int, into func(o *orders, tied []int) bool) bool {
	for _, tied := range o.tied(o.left(some)) {
		o.states, o.seen, o.doubted = 0, map[uint64]bool{}, false
		if into(o, tied) {
			return true
		}
	}
	return false
}

// unfinished reports whether no order puts all the given mutually tied pods on their hosts. If some order does, the pods stay on their
// hosts.
func (o *orders) unfinished(some []int) bool {
	some = o.left(some)
	if len(some) == 0 {
		return false
	}
	if !o.look(some) {
		return true
	}
	before := len(o.way)
	for _, i := range some {
		if t := &o.waiting[i]; o.search.excluded(t.demand, t.node, t.scope) != "" {
			continue
		}
		o.put(i)
		if !o.unfinished(some) {
			return false
		}
		o.back(before)
	}
	return true
}

// stuckTied reports whether some order of mutually tied pods ends with refused pods. Afterwards, the same pods are on their hosts as
// before.
func (o *orders) stuckTied(tied []int) bool {
	if one := o.tiedBy(tied); one != nil {
		every, known := one.Orderly(tied)
		if known && every {
			return false
		}
		o.doubted = known
	}
	return o.stuck(tied)
}

// stuck reports whether some order of the remaining tied pods reaches a state in which every pod that is not on its host yet is refused.
func (o *orders) stuck(some []int) bool {
	before := len(o.way)
	defer func() { o.back(before) }()
	refused := o.bindFree(some)
	if some = o.left(some); len(some) == 0 {
		return false
	}
	if !o.look(some) {
		return o.states > maxStates && o.doubted
	}
	open := slices.DeleteFunc(slices.Clone(some), func(i int) bool { return refused[i] })
	if len(open) == 0 {
		return true
	}
	if parts := o.tied(some); len(parts) > 1 {
		return slices.ContainsFunc(parts, o.stuck)
	}
	from := len(o.way)
	tried := map[alike]bool{}
	for _, i := range open {
		if like, is := o.alike(i); is && tried[like] {
			continue
		} else if is {
			tried[like] = true
		}
		o.put(i)
		if o.stuck(some) {
			return true
		}
		o.back(from)
	}
	return false
}

// bindFree puts on their hosts all pods that can never be refused and cannot cause a refusal of another pod. It returns which of the
// remaining pods are currently refused.
func (o *orders) bindFree(some []int) (refused map[int]bool) {
	for progress := true; progress; {
		progress, refused = false, map[int]bool{}
		for _, i := range some {
			for o.waiting[i].pods > 0 {
				if refused[i] = o.is(i, topology.Order.Refuses); refused[i] || !o.every(i, topology.Order.Free) {
					break
				}
				o.put(i)
				progress = true
			}
		}
	}
	return refused
}
