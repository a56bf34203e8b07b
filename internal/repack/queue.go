// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"container/heap"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// state is a set of replicas that move to free a domain.
type state struct {
	domain topology.DomainID
	// bounded: the hosts of the domain have been counted. enough: by the counts, the set suffices.
	bounded, enough bool
	// chosen lists the set's replicas by their index in the area. Only replicas with an index of at least next may be added.
	chosen []int32
	next   int32
	// own is the cost of the set. cost is a lower bound of the cost after further replicas are added so that the set suffices.
	own, cost Cost
	number    int
}

// queue orders the states by their lower bounds. If deep is set, larger sets come first among states with equal GPUs. Larger sets are
// closer to a plan, and there are too many small sets to try all of them.
type queue struct {
	states []*state
	deep   bool
}

func (q *queue) Len() int      { return len(q.states) }
func (q *queue) Swap(i, j int) { q.states[i], q.states[j] = q.states[j], q.states[i] }

// Less implements heap.Interface.
func (q *queue) Less(i, j int) bool {
	s, o := q.states[i], q.states[j]
	larger := cmp.Compare(len(o.chosen), len(s.chosen))
	if q.deep {
		return cmp.Or(cmp.Compare(s.cost.GPUs, o.cost.GPUs), larger, s.cost.Compare(o.cost), cmp.Compare(s.number, o.number)) < 0
	}
	return cmp.Or(s.cost.Compare(o.cost), larger, cmp.Compare(s.number, o.number)) < 0
}

// Push implements heap.Interface.
func (q *queue) Push(x any) { q.states = append(q.states, x.(*state)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(q.states) - 1
	s := q.states[last]
	q.states = q.states[:last]
	return s
}

func (f *finder) push(s *state) {
	f.result.pushed++
	s.number = f.result.pushed
	heap.Push(&f.queue, s)
}
