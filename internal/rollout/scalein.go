// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// scaleIn removes replicas above the ceiling. While a replica terminates, scaleIn also removes a surplus replica that waits for quota. The
// terminating replica's successor gets the terminating replica's quota, so the waiting replica is not needed.
func (s *step) scaleIn() {
	ceiling := s.ceiling(s.replicas)
	active := s.byLoss()
	ending := count(s.replicas, func(r Replica) bool { return r.State == Leaving })
	denied := filter(active, Replica.denied)
	for _, r := range denied[:max(0, min(len(denied), ending, len(active)+ending-ceiling))] {
		s.remove(r.Ordinal, "its queue has no quota for it, and a replica that ends leaves its own")
		active = slices.DeleteFunc(active, func(a Replica) bool { return a.Ordinal == r.Ordinal })
	}
	for _, r := range active[:max(0, len(active)-ceiling)] {
		s.remove(r.Ordinal, "the component is scaled in: %d of %d replicas have to go, and this one %s", len(active)-ceiling, len(active),
			s.lossOf(r, active))
		s.plan.Remove[len(s.plan.Remove)-1].ScaleIn = true
	}
}

// byLoss returns the active replicas in the order of CompareLoss. Replicas of the old generation that have to stay come last, because the
// other components need them in order to serve.
func (s *step) byLoss() []Replica {
	active := s.in(Replica.active)
	slices.SortFunc(active, s.CompareLoss)
	staying := s.staying()
	slices.SortStableFunc(active, func(a, b Replica) int { return bools.Compare(staying[a.Ordinal], staying[b.Ordinal]) })
	return active
}

// staying returns the ordinals of the available replicas of older revisions that stay, regardless of how many other replicas are available.
// At most the wanted number of replicas stays in each generation, because further replicas serve nothing. s.Step may require more replicas,
// if it was computed when more replicas were wanted.
func (s *step) staying() map[int]bool {
	out := map[int]bool{}
	if s.Step == nil {
		return out
	}
	of := map[string]int{}
	stay := func(replicas int, is func(Replica) bool) {
		found := s.in(func(r Replica) bool { return isAvailable(r) && r.Outdated && is(r) })
		slices.SortFunc(found, func(a, b Replica) int { return s.CompareLoss(b, a) })
		for _, r := range found {
			if replicas > 0 && of[r.Generation] < s.Replicas {
				out[r.Ordinal] = true
				of[r.Generation]++
				replicas--
			}
		}
	}
	if len(s.Step.Of) == 0 {
		stay(s.Step.Keep, func(Replica) bool { return true })
	}
	for _, kept := range s.Step.Of {
		stay(kept.Replicas, func(r Replica) bool { return r.Generation == kept.Generation })
	}
	return out
}

// lossOf describes why a replica is scaled in before the other active replicas.
func (s *step) lossOf(r Replica, active []Replica) string {
	what := [...]string{Partial: "is not whole yet", Waiting: "is not placed", Starting: "does not serve",
		Available: "is the youngest"}[r.State]
	switch {
	case r.State == Available && r.Outdated:
		return "runs an older revision"
	case r.State == Available && s.leaves(r):
		return "is to leave its nodes"
	case r.State == Available && r.Excess > 0:
		return "leaves the least imbalance of prefill and decode"
	case r.State == Available && slices.ContainsFunc(active, func(o Replica) bool { return isAvailable(o) && o.Neighbours > r.Neighbours }):
		return "has the fewest pods of others in its domain"
	}
	return what
}

// CompareLoss orders replicas by the loss that their removal causes, the least loss first. The order is: replicas that are not placed,
// replicas that do not serve, replicas of an older revision, replicas that have to leave their nodes, replicas whose role is in excess,
// replicas with the fewest neighbours, and then the youngest replicas.
func (g Group) CompareLoss(a, b Replica) int {
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)), bools.Compare(b.Outdated, a.Outdated), bools.Compare(g.leaves(b), g.leaves(a)),
		cmp.Compare(b.Excess, a.Excess), cmp.Compare(a.Neighbours, b.Neighbours), cmp.Compare(b.Created, a.Created),
		cmp.Compare(b.Ordinal, a.Ordinal),
	)
}

// rank treats Partial like Waiting, because removing a replica in either state loses nothing.
func rank(r Replica) State { return max(r.State, Waiting) }
