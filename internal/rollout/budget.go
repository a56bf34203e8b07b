// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"
)

// PodsThatStay returns the number of available pods that a disruption budget for the component requires; 0: evictions are not limited. It
// counts the pods of Replicas - MaxUnavailable replicas, where a MaxUnavailable of 0 counts as 1.
//
// sizes has the number of pods of each existing replica. size is the number of pods of each replica that is still to be created. If
// replicas differ in size, as during an update, PodsThatStay counts the smallest replicas. So all pods of any one replica can be evicted
// when all wanted replicas serve.
//
//	4 replicas of 2 pods, MaxUnavailable=1                         8 pods, 6 stay
//	2 replicas of 4 pods, 2 replicas of 2 pods, MaxUnavailable=1   12 pods, 2 + 2 + 4 = 8 stay
func (g Group) PodsThatStay(size int, sizes []int) int32 {
	left := int64(g.Replicas - max(1, g.MaxUnavailable))
	missing := max(0, int64(g.Replicas)-int64(len(sizes)))
	if left <= 0 {
		return 0
	}
	pods := int64(0)
	take := func(replicas int64, of int) {
		replicas = min(replicas, left)
		left -= replicas
		pods = min(pods+replicas*int64(of), math.MaxInt32)
	}
	for _, one := range slices.Sorted(slices.Values(sizes)) {
		if one > size {
			take(missing, size)
			missing = 0
		}
		take(1, one)
	}
	take(missing, size)
	return int32(pods)
}
