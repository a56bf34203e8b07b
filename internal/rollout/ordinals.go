// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
)

// Ordinals returns the sorted ordinals of the active replicas and of the replicas still to be created. remembered lists ordinals with
// recorded state (their former domain). Successors reuse these ordinals.
//
// The parameter most limits how many new ordinals without recorded state are listed, so that the list stays short for any number of wanted
// replicas. The method Wanted counts all replicas.
func (g Group) Ordinals(replicas []Replica, remembered []int, most int) []int {
	return g.ordinals(replicas, remembered, most, g.missing(replicas))
}

// ordinals is like Ordinals, but the caller gives the number of missing replicas.
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

// successors returns the ordinals of the replicas still to be created. It first uses the ordinals of leaving replicas: their successors are
// created once the leaving replicas are gone. Then it uses remembered ordinals, and then the lowest free ordinals.
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

// Wanted counts the active replicas and the replicas still to be created, whether or not Ordinals lists them.
func (g Group) Wanted(replicas []Replica) int {
	return count(replicas, Replica.active) + g.missing(replicas)
}

// missing returns the number of replicas to create: as many as the current revision lacks, but not more than the ceiling allows.
func (g Group) missing(replicas []Replica) int {
	active := count(replicas, Replica.active)
	return max(0, min(g.Replicas-g.lasting(replicas), g.ceiling(replicas)-active))
}

// lasting counts the replicas of the current revision that need no successor.
func (g Group) lasting(replicas []Replica) int {
	surges := g.surges(replicas)
	return count(replicas, func(r Replica) bool { return r.active() && !r.Outdated && (!surges || !g.leaves(r)) })
}

// ceiling returns the maximum number of replicas that may exist at once.
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
