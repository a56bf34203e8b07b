// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// A replica keeps its ComputeDomain while it is recreated, and leaves none behind when it is scaled in, whichever of the replicas goes.
func TestSpareDomains(t *testing.T) {
	for name, test := range map[string]struct {
		has, replicas, making []int32
		wanted                int32
		want                  []int32
	}{
		"all serve":                             {has: []int32{0, 1}, replicas: []int32{0, 1}, wanted: 2},
		"one is recreated":                      {has: []int32{0, 1}, replicas: []int32{0}, wanted: 2},
		"the last one is scaled in":             {has: []int32{0, 1}, replicas: []int32{0}, wanted: 1, want: []int32{1}},
		"the first one is scaled in":            {has: []int32{0, 1}, replicas: []int32{1}, wanted: 1, want: []int32{0}},
		"its pods have not ended":               {has: []int32{0, 1}, replicas: []int32{0, 1}, wanted: 1},
		"beyond the number, and one is missing": {has: []int32{0, 2}, replicas: []int32{0}, wanted: 2, want: []int32{2}},
		"it is made again":                      {has: []int32{0, 1}, replicas: []int32{0, 2}, making: []int32{1}, wanted: 2},
		"scaled to zero":                        {has: []int32{1, 0}, wanted: 0, want: []int32{0, 1}},
	} {
		has, replicas, making := map[int32]types.UID{}, map[int32]*replica{}, map[int32]bool{}
		for _, ordinal := range test.has {
			has[ordinal] = "uid"
		}
		for _, ordinal := range test.replicas {
			replicas[ordinal] = &replica{}
		}
		for _, ordinal := range test.making {
			making[ordinal] = true
		}
		if diff := cmp.Diff(test.want, spareDomains(has, replicas, making, test.wanted)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
