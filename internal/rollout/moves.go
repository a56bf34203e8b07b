// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
)

// leaves reports whether a replica has to leave its nodes.
func (g Group) leaves(r Replica) bool {
	return r.active() && slices.ContainsFunc(g.Leaving, func(l Leave) bool { return l.Ordinal == r.Ordinal })
}

// overdue reports whether a replica may leave its nodes before it has a successor.
func (g Group) overdue(r Replica) bool {
	return g.MovesInPlace || g.Recreate ||
		slices.ContainsFunc(g.Leaving, func(l Leave) bool { return l.Ordinal == r.Ordinal && l.Overdue })
}

// surges reports whether successors are created before replicas leave their nodes. It returns false while an update replaces replicas: the
// update first replaces the replicas that have to leave, and creates the new replicas on other nodes. No successor is created for an
// overdue replica before it leaves. An existing successor stays, unless its Kueue queue has no quota for it. The leaving replica is then
// replaced in place, because its quota may apply only to its own ordinal.
func (g Group) surges(replicas []Replica) bool {
	waits := count(replicas, Replica.active) > g.Replicas && !slices.ContainsFunc(replicas, Replica.denied)
	return g.Replicas > 0 && !g.Recreate && !g.Stopped && !g.MovesInPlace && g.settled(replicas) &&
		slices.ContainsFunc(replicas, func(r Replica) bool { return !r.Outdated && g.leaves(r) && (waits || !g.overdue(r)) })
}

// settled reports whether no update is replacing replicas.
func (g Group) settled(replicas []Replica) bool {
	return g.Step != nil && g.Step.Paused || !slices.ContainsFunc(replicas, isOutdated)
}

func isOutdated(r Replica) bool { return r.active() && r.Outdated }

// move removes replicas that have to leave their nodes. It immediately removes a replica that does not serve. It removes a serving replica
// when the wanted number of other replicas serve. It removes an overdue replica if MaxUnavailable allows this. A MaxUnavailable of 0 counts
// as 1.
func (s *step) move() {
	for _, r := range s.in(func(r Replica) bool { return r.State == Starting && s.leaves(r) }) {
		s.remove(r.Ordinal, "it is to leave its nodes and does not serve")
	}
	serving := s.in(func(r Replica) bool { return isAvailable(r) && s.leaves(r) })
	slices.SortFunc(serving, s.CompareLoss)
	available := len(s.in(isAvailable))
	floor, settled := max(0, s.Replicas-max(1, s.MaxUnavailable)), s.settled(s.replicas)
	for _, r := range serving {
		switch {
		case settled && !r.Outdated && available > s.Replicas:
			s.remove(r.Ordinal, "it is to leave its nodes: %d available > %d wanted", available, s.Replicas)
		case s.overdue(r) && available > floor:
			s.remove(r.Ordinal, "it is to leave its nodes in place: %d available > %d that have to stay", available, floor)
		default:
			continue
		}
		available--
	}
}
