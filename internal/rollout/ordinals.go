// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
)

// Ordinals of the replicas that are there or will be, in order: the active ones, and those still to be made. remembered are ordinals of
// which something is kept (the domain they sat in), so that a successor takes the place of the one before it.
//
// Of those of which nothing exists and nothing is kept, only the first most are listed, so that the list is as long as what there is and no
// longer: the number of replicas wanted may be any. Wanted counts them all.
func (g Group) Ordinals(replicas []Replica, remembered []int, most int) []int {
	return g.ordinals(replicas, remembered, most, g.missing(replicas))
}

// ordinals is Ordinals with so many replicas to be made.
func (g Group) ordinals(replicas []Replica, remembered []int, most, missing int) []int {
	var out []int
	for _, r := range replicas {
		if r.active() {
			out = append(out, r.Ordinal)
		}
	}
	out = append(out, successors(replicas, remembered, most, missing)...)
	slices.Sort(out)
	return out
}

// successors are the ordinals still to be made: first those of replicas on their way out, which are made once those are gone, then
// remembered ones, then the lowest that are free.
func successors(replicas []Replica, remembered []int, most, missing int) []int {
	taken := map[int]bool{}
	var candidates []int
	for _, r := range replicas {
		if r.active() || r.State == Lost {
			taken[r.Ordinal] = true
		} else {
			candidates = append(candidates, r.Ordinal)
		}
	}
	slices.Sort(candidates)
	candidates = append(candidates, remembered...)
	var out []int
	for next, free := 0, 0; len(out) < missing && (next < len(candidates) || most > 0); {
		ordinal := free
		if next < len(candidates) {
			ordinal = candidates[next]
			next++
		} else if free++; !taken[ordinal] {
			most--
		}
		if !taken[ordinal] {
			taken[ordinal] = true
			out = append(out, ordinal)
		}
	}
	return out
}

// Wanted counts the replicas that are there or will be, listed by Ordinals or not.
func (g Group) Wanted(replicas []Replica) int {
	return count(replicas, Replica.active) + g.missing(replicas)
}

// missing is how many replicas are to be made: as many as the current revision lacks, under the ceiling.
func (g Group) missing(replicas []Replica) int {
	active := count(replicas, Replica.active)
	return max(0, min(g.Replicas-g.lasting(replicas), g.ceiling(replicas)-active))
}

// lasting counts the replicas of the current revision that need no successor.
func (g Group) lasting(replicas []Replica) int {
	surges := g.surges(replicas)
	return count(replicas, func(r Replica) bool { return r.active() && !r.Outdated && !(surges && g.leaves(r)) })
}

// ceiling is how many replicas may live at once.
func (g Group) ceiling(replicas []Replica) int {
	surge := 0
	if g.Replicas > 0 && !g.Recreate && slices.ContainsFunc(replicas, isOutdated) {
		surge = g.MaxSurge
	}
	if g.surges(replicas) {
		surge = max(1, g.MaxSurge)
	}
	return g.Replicas + surge
}
