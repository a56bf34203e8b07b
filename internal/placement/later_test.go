// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLater: what is not to be placed yet decides between domains that are as good for what is, and takes nothing from it.
func TestLater(t *testing.T) {
	ls := levels("zone", "rack")
	const zone, rack = 0, 1
	later := func(s Component, ordinals ...int) Component {
		for _, ordinal := range ordinals {
			s.Waiting[ordinal].Later = true
		}
		return s
	}
	nodes := []string{"a1 a/r1 8", "a2 a/r1 8 used=8", "b1 b/r1 8", "b2 b/r1 8"}
	for name, tc := range map[string]struct {
		nodes []string
		graph Demand
		want  []string
	}{
		"the zone that holds it too, not the tighter one": {nodes,
			Demand{Required: zone, Preferred: none, Components: []Component{later(componentOf("decode", none, none, 2, 1, gpus(8)), 1)}},
			[]string{"decode-0 b: b1"}},
		"without it, the tighter one": {nodes,
			Demand{Required: zone, Preferred: none, Components: []Component{componentOf("decode", none, none, 1, 1, gpus(8))}},
			[]string{"decode-0 a: a1"}},
		"it takes nothing from replicas of higher ordinals": {nodes[2:3],
			Demand{Required: none, Preferred: none, Components: []Component{later(componentOf("decode", none, none, 2, 1, gpus(8)), 0)}},
			[]string{"decode-1 : b1"}},
		"it takes nothing from other services": {nodes[2:3],
			Demand{Required: none, Preferred: none, Components: []Component{
				later(componentOf("decode", none, none, 1, 1, gpus(8)), 0), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			[]string{"prefill-0 : b1"}},
		"a single-node service chooses a rack for all of its replicas": {[]string{"a1 a/r1 1", "a2 a/r2 4", "a3 a/r3 2"},
			Demand{Required: none, Preferred: none, Components: []Component{later(componentOf("router", rack, none, 2, 1, gpus(1)), 1)}},
			[]string{"router-0 a/r3: a3"}},
		"nothing but what is later": {nodes,
			Demand{Required: none, Preferred: none, Components: []Component{later(componentOf("decode", none, none, 1, 1, gpus(8)), 0)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.graph.Levels = ls
			c := clusterOf(ls, tc.nodes...)
			result := PlanGraph(c, tc.graph, Options{})
			if diff := cmp.Diff(tc.want, summary(result)); diff != "" {
				t.Error(diff)
			}
			for _, s := range tc.graph.Components {
				for _, replica := range s.Waiting {
					for _, pod := range replica.Pods {
						if _, reserved := c.Reserved(pod.ID); reserved && replica.Later {
							t.Errorf("capacity is reserved for %s-%d", s.Name, replica.Ordinal)
						}
					}
				}
			}
		})
	}
}

// TestLaterPreemptsNothing: nothing is preempted for what is not to be placed yet.
func TestLaterPreemptsNothing(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, "b1 b/r1 8 used=8")
	s := componentOf("decode", none, none, 1, 1, gpus(8))
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{s}, Priority: 10, Preempts: true}
	c.Begin()
	if result := PlanGraph(c, g, Options{}); len(result.Replicas) != 1 || result.Replicas[0].Preempts == nil {
		t.Fatalf("a replica that is placed now does not preempt: %+v", result.Replicas)
	}
	c.Rollback()
	s.Waiting[0].Later = true
	if result := PlanGraph(c, g, Options{}); len(result.Replicas) != 0 {
		t.Errorf("%+v", result.Replicas)
	}
	if _, reserved := c.Reserved(s.Waiting[0].Pods[0].ID); reserved {
		t.Error("capacity is reserved for it")
	}
}
