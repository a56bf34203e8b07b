// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import "fmt"

// Batch is the sequence of moves for one gang. After each move, the remaining moves are planned again.
type Batch struct {
	// left is the cost of the remaining moves according to the last plan. It is nil before the first plan, and after a restart of the
	// operator.
	left *Cost
}

// Done reports whether no moves remain according to the last plan. The gang then takes its place by itself.
func (b *Batch) Done() bool { return b.left != nil && b.left.Replicas == 0 }

// Next evaluates a new plan for the batch. It returns the next move, or the reason why the batch ends. It returns neither if the gang
// already has a place: the gang then takes this place without further moves.
func (b *Batch) Next(found *Result) (next *Move, ends string) {
	switch {
	case found.Plan == nil:
		return nil, "no moves free a place any more"
	case len(found.Plan.Moves) == 0:
		return nil, ""
	case b.left != nil && found.Plan.Cost.Compare(*b.left) > 0:
		return nil, fmt.Sprintf("the moves that are left would restart %d GPUs, and %d as planned before", found.Plan.Cost.GPUs, b.left.GPUs)
	}
	rest := make([]*Replica, 0, len(found.Plan.Moves)-1)
	for i := range found.Plan.Moves[1:] {
		rest = append(rest, found.Plan.Moves[i+1].Replica)
	}
	left := CostOf(rest)
	b.left = &left
	return &found.Plan.Moves[0], ""
}
