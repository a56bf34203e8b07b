// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPodsThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		group Group
		size  int
		sizes []int
		want  int32
	}{
		"one may be missing":              {Group{Replicas: 4, MaxUnavailable: 1}, 2, []int{2, 2, 2, 2}, 6},
		"none may be missing":             {Group{Replicas: 4}, 2, []int{2, 2, 2, 2}, 6},
		"two may be missing":              {Group{Replicas: 4, MaxUnavailable: 2}, 2, []int{2, 2, 2, 2}, 4},
		"all may be missing":              {Group{Replicas: 2, MaxUnavailable: 3}, 2, []int{2, 2}, 0},
		"a single replica":                {Group{Replicas: 1}, 4, []int{4}, 0},
		"none is wanted":                  {Group{}, 4, []int{4}, 0},
		"a surplus one":                   {Group{Replicas: 4, MaxUnavailable: 1}, 2, []int{2, 2, 2, 2, 2}, 6},
		"one is lost":                     {Group{Replicas: 4, MaxUnavailable: 1}, 2, []int{2, 2, 2}, 6},
		"nothing exists":                  {Group{Replicas: 4, MaxUnavailable: 1}, 2, nil, 6},
		"an update to larger replicas":    {Group{Replicas: 4, MaxUnavailable: 1}, 4, []int{2, 4, 2, 4}, 8},
		"the smaller one is lost":         {Group{Replicas: 4, MaxUnavailable: 1}, 4, []int{2, 4, 4}, 10},
		"an update to smaller replicas":   {Group{Replicas: 4, MaxUnavailable: 1}, 2, []int{4, 4, 4}, 10},
		"more than an object can express": {Group{Replicas: math.MaxInt32, MaxUnavailable: 1}, 4, []int{4}, math.MaxInt32},
	} {
		if got := c.group.PodsThatStay(c.size, c.sizes); got != c.want {
			t.Errorf("%s: %d pods stay, want %d", name, got, c.want)
		}
	}
}

// TestADrainWithoutAnOperatorBegins: when all wanted replicas serve, the pods of any one of them may be evicted, and never more than those of
// MaxUnavailable replicas of the largest size, and of the surplus ones.
func TestADrainWithoutAnOperatorBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Group{Replicas: rapid.IntRange(1, 8).Draw(t, "replicas"), MaxUnavailable: rapid.IntRange(0, 9).Draw(t, "U")}
		size := rapid.IntRange(1, 6).Draw(t, "size")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6), g.Replicas, g.Replicas+3).Draw(t, "sizes")
		pods := 0
		for _, one := range sizes {
			pods += one
		}
		largest := slices.Max(sizes)
		stay := int(g.PodsThatStay(size, sizes))
		if may := pods - stay; may < largest {
			t.Fatalf("%d of %d pods stay, so a replica of %d pods cannot leave", stay, pods, largest)
		}
		most := max(1, min(g.MaxUnavailable, g.Replicas)) + len(sizes) - g.Replicas
		if may := pods - stay; may > most*largest {
			t.Fatalf("%d of %d pods may be evicted, more than those of %d replicas", may, pods, most)
		}
	})
}
