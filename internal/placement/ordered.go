// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// ordered reports whether the pods that are taken can be bound one after the other, whichever the kube-scheduler tries first. They go off their hosts, and
// return one by one as the rules allow it: first those that do not lead others, since by the time one that does is tried, the pods that it asks for
// may be elsewhere.
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
	turns := s.turns(waiting)
	left := s.comeBack(s.comeBack(slices.Clone(waiting), false), true)
	for turn := 0; len(left) > 0 && turn < turns && !s.shareSpent(); turn++ {
		var first, others []take
		for _, t := range waiting {
			kept := countOf(left, t)
			t.demand.view.Give(t.node, t.pods-kept)
			if kept > 0 {
				first = append(first, t)
			} else {
				others = append(others, t)
			}
		}
		next := append(first, others...)
		left = s.comeBack(s.comeBack(next, false), true)
	}
	for _, t := range left {
		t.demand.view.Take(t.node, t.pods)
	}
	return len(left) == 0 && !slices.ContainsFunc(waiting, s.exceeds)
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

// turns is how often pods that are left in one order come first in another: whoever comes first may keep others off by a spread that counts it, but that is
// all the same to the kube-scheduler, which compares pinned hosts ([topology.Spreader]). Where pods lead others it is not the same who comes first.
func (s *search) turns(waiting []take) int {
	spreads := len(s.options.bindings) == 1
	for _, b := range s.options.bindings {
		one, is := b.(topology.Spreader)
		spreads = spreads && is && one.Spreads()
	}
	if !spreads || slices.ContainsFunc(waiting, func(t take) bool { return s.leads(&t) }) {
		return 0
	}
	return maxTurns
}

// maxTurns bounds the orders that are tried.
const maxTurns = 4

// countOf is how many pods of a demand on a host are in a list.
func countOf(list []take, of take) (n int) {
	for _, t := range list {
		if t.demand == of.demand && t.node == of.node {
			n += t.pods
		}
	}
	return n
}

// exceeds says that pods break a rule of their own together with those that came after them.
func (s *search) exceeds(t take) bool {
	return slices.ContainsFunc(s.options.bindings, func(b topology.Binding) bool { return b.Exceeds(t.demand.shape(), t.node, t.scope) })
}

// comeBack puts pods back on their hosts while the rules allow one of them, and returns those that are left.
func (s *search) comeBack(left []take, leading bool) []take {
	for progress := true; progress && len(left) > 0; {
		progress = false
		for i := range left {
			for t := &left[i]; t.pods > 0 && s.excluded(t.demand, t.node, t.scope) == "" && (leading || !s.leads(t)); t.pods-- {
				t.demand.view.Take(t.node, 1)
				progress = true
			}
		}
		left = slices.DeleteFunc(left, func(t take) bool { return t.pods == 0 })
		s.steps -= len(left) / 16
	}
	return left
}

func (s *search) leads(t *take) bool {
	return slices.ContainsFunc(s.options.bindings, func(b topology.Binding) bool { return b.Leads(t.demand.shape(), t.node) })
}
