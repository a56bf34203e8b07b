// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"
	"strings"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
)

// An API server stores objects of up to 1.5 MiB. A path of domains may have 1,023 bytes (16 levels with labels of 63), and a group 65,536
// replicas: in full they are 64 MiB. So the lowest ordinals are listed one by one, and the others by domain, each list within its budget;
// where the second would pass it, its paths end at a broader level.

// PlacementBudget is how many bytes of a status the places of replicas may take, as JSON.
type PlacementBudget struct {
	// Listed bounds ScalingGroupStatus.Placements, with what the API server notes of the owner of each entry, and Further FurtherPlacements.
	Listed, Further int
}

// DefaultPlacementBudget leaves most of an object to the pods' templates.
var DefaultPlacementBudget = PlacementBudget{Listed: 128 << 10, Further: 256 << 10}

const (
	// listedCost is what an entry costs beyond its path: its fields in the status, and in the metadata that say who owns them.
	listedCost = len(`{"replica":65535,"domain":"","bound":true},`) +
		len(`"k:{\"replica\":65535}":{".":{},"f:bound":{},"f:domain":{},"f:replica":{}},`)
	// furtherCost is what a domain costs beyond its path and its ordinals.
	furtherCost = len(`{"domain":"","replicas":"","former":""},`)
)

// CutPlacements is what is stored of the places of replicas.
type CutPlacements struct {
	Listed  []trellisv1alpha1.ReplicaPlacement
	Further []trellisv1alpha1.DomainPlacements
	// Depth is at how many levels the paths of Further end; 0: they are whole. Dropped is how many replicas, those of the highest ordinals,
	// have no place in it.
	Depth, Dropped int
}

// Cut fits the places of replicas, in order of ordinals, into a budget.
func (b PlacementBudget) Cut(all []trellisv1alpha1.ReplicaPlacement) CutPlacements {
	var out CutPlacements
	for left := b.Listed; len(all) > 0; all = all[1:] {
		if left -= listedCost + len(all[0].Domain); left < 0 {
			break
		}
		out.Listed = append(out.Listed, all[0])
	}
	if len(all) == 0 {
		return out
	}
	deepest := 0
	for i := range all {
		deepest = max(deepest, 1+strings.Count(all[i].Domain, "/"))
	}
	for depth := deepest; depth > 0; depth-- {
		if further, fits := byDomain(all, depth, b.Further); fits {
			out.Further = further
			return out
		}
		out.Depth = max(depth-1, 1)
	}
	// Not even the broadest domains fit: the replicas are by turns in one and another. The size grows with each.
	for low, high := 0, len(all); low < high; {
		middle := (low + high + 1) / 2
		if further, fits := byDomain(all[:middle], 1, b.Further); fits {
			low, out.Further = middle, further
		} else {
			high = middle - 1
		}
		out.Dropped = len(all) - low
	}
	return out
}

// SizeOfPlacements is how much of a budget a list takes, in bytes.
func SizeOfPlacements(listed []trellisv1alpha1.ReplicaPlacement) int {
	size := 0
	for i := range listed {
		size += listedCost + len(listed[i].Domain)
	}
	return size
}

// byDomain groups replicas by their domains, down to so many levels; false when that takes more bytes than there are.
func byDomain(all []trellisv1alpha1.ReplicaPlacement, depth, bytes int) ([]trellisv1alpha1.DomainPlacements, bool) {
	type ordinals struct{ bound, former []int32 }
	found := map[string]*ordinals{}
	for i := range all {
		domain := cutPath(all[i].Domain, depth)
		in := found[domain]
		if in == nil {
			if bytes -= furtherCost + len(domain); bytes < 0 {
				return nil, false
			}
			in = &ordinals{}
			found[domain] = in
		}
		if all[i].Bound {
			in.bound = append(in.bound, all[i].Replica)
		} else {
			in.former = append(in.former, all[i].Replica)
		}
	}
	out := make([]trellisv1alpha1.DomainPlacements, 0, len(found))
	for _, domain := range slices.Sorted(maps.Keys(found)) {
		in := found[domain]
		one := trellisv1alpha1.DomainPlacements{
			Domain: domain, Replicas: assignment.WriteRanges(in.bound), Former: assignment.WriteRanges(in.former),
		}
		if bytes -= len(one.Replicas) + len(one.Former); bytes < 0 {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

// cutPath is a path down to so many levels.
func cutPath(path string, depth int) string {
	at := 0
	for range depth {
		next := strings.IndexByte(path[at:], '/')
		if next < 0 {
			return path
		}
		at += next + 1
	}
	return path[:at-1]
}

// Placements are the last domains of the replicas of a group, by ordinal, from both lists of its status.
func Placements(status *trellisv1alpha1.ScalingGroupStatus) []trellisv1alpha1.ReplicaPlacement {
	if len(status.FurtherPlacements) == 0 {
		return status.Placements
	}
	byOrdinal := map[int32]trellisv1alpha1.ReplicaPlacement{}
	for i := range status.FurtherPlacements {
		in := &status.FurtherPlacements[i]
		assignment.ReadRanges(in.Former, func(n int32) bool {
			byOrdinal[n] = trellisv1alpha1.ReplicaPlacement{Replica: n, Domain: in.Domain}
			return true
		})
		assignment.ReadRanges(in.Replicas, func(n int32) bool {
			byOrdinal[n] = trellisv1alpha1.ReplicaPlacement{Replica: n, Domain: in.Domain, Bound: true}
			return true
		})
	}
	for _, p := range status.Placements {
		byOrdinal[p.Replica] = p
	}
	out := make([]trellisv1alpha1.ReplicaPlacement, 0, len(byOrdinal))
	for _, n := range slices.Sorted(maps.Keys(byOrdinal)) {
		out = append(out, byOrdinal[n])
	}
	return out
}
