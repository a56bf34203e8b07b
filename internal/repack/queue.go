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
	// bounded: the hosts of the domain were counted. enough: by the counts, the set suffices.
	bounded, enough bool
	// chosen are replicas by their place in the area; those from next on may be added.
	chosen []int32
	next   int32
	// own is the cost of the set, cost a lower bound of what it costs with others added.
	own, cost Cost
	number    int
}

func (s *state) before(o *state) bool {
	return cmp.Or(s.cost.Compare(o.cost), cmp.Compare(len(o.chosen), len(s.chosen)), cmp.Compare(s.number, o.number)) < 0
}

// queue has the states by their lower bounds.
type queue []*state

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*state)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	*q = (*q)[:last]
	return s
}

func (f *finder) push(s *state) {
	f.result.pushed++
	s.number = f.result.pushed
	heap.Push(&f.queue, s)
}
