// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrdinals(t *testing.T) {
	cases := map[string]struct {
		want       Group
		replicas   []Replica
		remembered []int
		ordinals   []int
	}{
		"a new service":                        {Group{Replicas: 3}, nil, nil, []int{0, 1, 2}},
		"what is there keeps its number":       {Group{Replicas: 2}, []Replica{{Ordinal: 1, State: Available}, {Ordinal: 5, State: Waiting}}, nil, []int{1, 5}},
		"the lowest free number":               {Group{Replicas: 3}, []Replica{{Ordinal: 1, State: Available}, {Ordinal: 5, State: Waiting}}, nil, []int{0, 1, 5}},
		"the number of the one that leaves":    {Group{Replicas: 2}, []Replica{{Ordinal: 1, State: Available}, {Ordinal: 3, State: Leaving}}, nil, []int{1, 3}},
		"the number whose place is known":      {Group{Replicas: 2}, []Replica{{Ordinal: 1, State: Available}}, []int{1, 3}, []int{1, 3}},
		"the one that leaves comes first":      {Group{Replicas: 2}, []Replica{{Ordinal: 1, State: Available}, {Ordinal: 4, State: Broken}}, []int{1, 3}, []int{1, 4}},
		"another one for the one that is lost": {Group{Replicas: 2}, []Replica{{Ordinal: 0, State: Available}, {Ordinal: 1, State: Lost}}, []int{0, 1}, []int{0, 2}},
		"the lost one is not wanted any more":  {Group{Replicas: 1}, []Replica{{Ordinal: 0, State: Available}, {Ordinal: 1, State: Lost}}, nil, []int{0}},
		"more than wanted, for now":            {Group{Replicas: 1}, []Replica{{Ordinal: 0, State: Available}, {Ordinal: 1, State: Starting}}, []int{0, 1}, []int{0, 1}},
		"none":                                 {Group{}, []Replica{{Ordinal: 0, State: Leaving}}, []int{0}, nil},
		"one more beside outdated ones":        {Group{Replicas: 1, MaxSurge: 1}, []Replica{{Ordinal: 0, State: Available, Outdated: true}}, nil, []int{0, 1}},
		"no more when nothing is outdated":     {Group{Replicas: 1, MaxSurge: 1}, []Replica{{Ordinal: 0, State: Available}}, nil, []int{0}},
		"no more new ones than are wanted":     {Group{Replicas: 1, MaxSurge: 2}, []Replica{{Ordinal: 0, State: Available, Outdated: true}, {Ordinal: 1, State: Waiting}}, nil, []int{0, 1}},
		"stopped ones will be made after it":   {Group{Replicas: 2, Stopped: true}, nil, nil, []int{0, 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.ordinals, c.want.Ordinals(c.replicas, c.remembered, 100)); diff != "" {
				t.Errorf("ordinals (-want +got):\n%s", diff)
			}
		})
	}
}
