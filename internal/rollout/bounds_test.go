// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// However many replicas are wanted, what is listed and made is what there is and a few more.
func TestOrdinalsAreAsManyAsThereAre(t *testing.T) {
	wanted := Group{Replicas: math.MaxInt32, MaxSurge: math.MaxInt32, MaxUnavailable: 1}
	there := []Replica{{Ordinal: 1, State: Available}, {Ordinal: 4, State: Leaving}, {Ordinal: 9, State: Partial}}
	for _, c := range []struct {
		most int
		want []int
	}{
		{0, []int{1, 4, 7, 9}},
		{2, []int{0, 1, 2, 4, 7, 9}},
	} {
		if diff := cmp.Diff(c.want, wanted.Ordinals(there, []int{7}, c.most)); diff != "" {
			t.Errorf("at most %d more (-want +got):\n%s", c.most, diff)
		}
	}
	if diff := cmp.Diff([]int{0, 2, 7, 9}, wanted.Next(there, []int{7}, 2).Make); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if got := wanted.Wanted(there); got != math.MaxInt32 {
		t.Errorf("%d are wanted, want %d", got, math.MaxInt32)
	}
}
