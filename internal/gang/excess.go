// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Excess orders the replicas of a group by how far their role is in excess in their domains, by the places that the status of the groups
// has: of any number of replicas that are scaled in, those with the most leave the least imbalance. Of replicas that are alike, a younger
// one has more; created is when each was made.
func Excess(sg *trellisv1alpha1.ScalingGroup, groups []*trellisv1alpha1.ScalingGroup, created map[int32]int64) map[int32]int {
	role, level := RoleOf(sg), constraint.Level(sg.Spec.Topology, sg.Spec.Topology.KVTransferDomain)
	var mine, theirs int
	counts := map[string][2]int{} // of the group's role, and of the other one
	at := map[int32]string{}
	for _, one := range groups {
		of := RoleOf(one)
		if of == placement.NoRole {
			continue
		}
		index := 0
		if of == role {
			mine += int(one.Spec.Replicas)
		} else {
			index, theirs = 1, theirs+int(one.Spec.Replicas)
		}
		for _, p := range Placements(&one.Status) {
			if !p.Bound {
				continue
			}
			domain := fmt.Sprintf("/%s/%d", one.Spec.Service, p.Replica) // a replica that no domain holds is in one of its own
			if path := topology.ParsePath(p.Domain); len(path) > level {
				domain = path.Truncate(level).String()
			}
			n := counts[domain]
			n[index]++
			counts[domain] = n
			if one.Spec.Service == sg.Spec.Service {
				at[p.Replica] = domain
			}
		}
	}
	return orderByExcess(at, created, counts, max(mine, 1), max(theirs, 1))
}

// orderByExcess takes the replicas away one by one, each time one where the role is most in excess.
func orderByExcess(at map[int32]string, created map[int32]int64, counts map[string][2]int, mine, theirs int) map[int32]int {
	out := make(map[int32]int, len(at))
	ordinals := make([]int32, 0, len(at))
	for ordinal := range at {
		ordinals = append(ordinals, ordinal)
	}
	slices.SortFunc(ordinals, func(a, b int32) int { return cmp.Or(cmp.Compare(created[b], created[a]), cmp.Compare(b, a)) })
	for left := len(ordinals); left > 0; left-- {
		best, most := -1, 0
		for i, ordinal := range ordinals {
			if _, taken := out[ordinal]; taken {
				continue
			}
			n := counts[at[ordinal]]
			if excess := n[0]*theirs - n[1]*mine; best < 0 || excess > most {
				best, most = i, excess
			}
		}
		domain := at[ordinals[best]]
		out[ordinals[best]] = left
		n := counts[domain]
		n[0]--
		counts[domain] = n
	}
	return out
}
