// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

func TestWhenEmpty(t *testing.T) {
	ls := levels("zone", "rack")
	for name, tc := range map[string]struct {
		nodes, running []string
		graph          Demand
		most           int
		want           string
		needs          int
	}{
		"the rack that has most": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "b0 z/r1 8", "b1 z/r1 8"}, []string{"a0 x 0 8", "a1 x 0 8", "b0 y 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 9, "z/r1: b0 b1", 0,
		},
		"not a rack that is too small": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "b0 z/r1 8"}, []string{"a0 x 0 8", "a1 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 9, "z/r0: a0 a1", 0,
		},
		"none would do": {
			[]string{"a0 z/r0 8", "b0 z/r1 8"}, []string{"a0 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 9, "", 0,
		},
		"a cordoned host does not count": {
			[]string{"a0 z/r0 8", "a1 z/r0 8 cordoned", "b0 z/r1 8", "b1 z/r1 8"}, []string{"b0 x 0 8", "b1 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 9, "z/r1: b0 b1", 0,
		},
		"the whole base gang": {
			[]string{"a0 z/r0 8", "b0 y/r0 8", "b1 y/r1 8"}, []string{"b1 x 0 8"},
			Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{componentOf("v", none, none, 1, 1, gpus(8)), componentOf("w", none, none, 1, 1, gpus(8))}}, 9, "y: b0 b1", 0,
		},
		"nothing to reserve without a domain": {
			[]string{"a0 z/r0 8"}, []string{"a0 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", none, none, 1, 2, gpus(8))}}, 9, "", 0,
		},
		"only the hosts it needs, those that are free first": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "a2 z/r0 8", "a3 z/r0 8", "a4 z/r0 8"}, []string{"a0 v 0 1", "a0 w 0 1", "a1 x 0 8", "a2 y 0 4", "a2 y 0 4", "a4 y 0 1", "a4 w 0 1"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 9, "z/r0: a1 a3", 0,
		},
		"only the hosts it can use": {
			[]string{"a0 z/r0 8", "a1 z/r0 8 label=kind=new", "b0 z/r1 8"}, []string{"a0 x 0 8", "a1 x 0 8", "b0 y 0 8"},
			Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{componentOf("w", none, none, 1, 1, onKind("new"))}}, 1, "z: a1", 0,
		},
		"not more hosts than may be reserved": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "b0 z/r1 8"}, []string{"a0 x 0 8", "a1 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}, 1, "", 2,
		},
		"few empty hosts rather than many half full ones": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "a2 z/r0 8"}, []string{"a0 x 0 6", "a1 x 0 6", "a2 x 0 6"},
			Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 8, gpus(1))}}, 9, "z/r0: a0", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithGangs(ls, tc.nodes...)
			runs(c, tc.running...)
			c.Begin()
			r := PlanGraph(c, tc.graph, Options{})
			c.Rollback()
			empty, needs := WhenEmpty(c, tc.graph, &r, nil, tc.most, Options{})
			got := ""
			if empty != nil {
				got = empty.Domain.String() + ": " + strings.Join(empty.Hosts, " ")
			}
			if got != tc.want || needs != tc.needs {
				t.Errorf("%q, needs %d; want %q, needs %d", got, needs, tc.want, tc.needs)
			}
		})
	}
}

// onKind is the shape of a pod with 8 GPUs that goes to nodes of a kind.
func onKind(kind string) *topology.Shape {
	p := podOf(map[string]string{gpu: "8"})
	p.Spec.NodeSelector = map[string]string{"kind": kind}
	return topology.ShapeOf(p)
}
