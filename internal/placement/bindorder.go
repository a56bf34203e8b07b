// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// ordered reports whether the pods that are taken can be bound one after the other: by their rules in the domain in at least one order, and
// on the hosts that they are pinned to in every order, since the kube-scheduler tries them in any. A pod that it refuses is tried again
// when others are bound, so an order fails where all pods that are left are refused.
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

// takenTogether are the pods that are taken and that rules about others bind, one entry for each demand and host.
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

// maxStates bounds the sets of bound pods that are looked at for one way to place a gang. Beyond it, one order that was found is
// enough where some order is needed, and every order is taken to work if none was found that fails.
const maxStates = 2048

// orders are pods that wait to be bound, all of which are off their hosts at first.
type orders struct {
	search *search
	// waiting are the pods that are still off their hosts, and way those that are on them, in order.
	waiting []take
	way     []int
	by      []topology.Order
	states  int
	seen    map[uint64]bool
	// doubted: pods are looked at of which some order fails, unless no order gets that far.
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

// back takes pods off their hosts until so many are left there.
func (o *orders) back(count int) {
	for ; len(o.way) > count; o.way = o.way[:len(o.way)-1] {
		t := &o.waiting[o.way[len(o.way)-1]]
		t.demand.view.Give(t.node, 1)
		t.pods++
	}
}

// look counts a state, and reports whether it is to be looked at: it is a new one, and not one too many.
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

// someOrder puts the pods on their hosts in some order that the rules allow in their domains.
func (o *orders) someOrder() bool {
	o.greedily(func(i int) bool { return o.every(i, topology.Order.Free) })
	o.greedily(func(int) bool { return true })
	if o.left(o.all()) == nil {
		return true
	}
	o.back(0)
	return !o.gets(o.all(), (*orders).unfinished)
}

// greedily puts pods on their hosts while some of those that are wanted are allowed there.
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

// left are those of some pods that are still off their hosts.
func (o *orders) left(some []int) (list []int) {
	for _, i := range some {
		if o.waiting[i].pods > 0 {
			list = append(list, i)
		}
	}
	return list
}

// gets asks whether one of the groups of pods that are tied to each other gets into a state.
func (o *orders) gets(some []int, into func(o *orders, tied []int) bool) bool {
	for _, tied := range o.tied(o.left(some)) {
		o.states, o.seen, o.doubted = 0, map[uint64]bool{}, false
		if into(o, tied) {
			return true
		}
	}
	return false
}

// unfinished reports whether no order puts all of some pods that are tied to each other on their hosts. If one does, they are left there.
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

// stuckTied reports whether some order leaves pods refused of those that are tied to each other. It leaves them off their hosts.
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

// stuck reports whether some order of the pods that are left of those that are tied to each other gets to where all that are left are
// refused.
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

// bindFree puts pods on their hosts that may come at any time from now on, and reports which of the others are refused now.
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
