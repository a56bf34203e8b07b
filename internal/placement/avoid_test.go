// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// A host that a replica avoids comes last: after every other domain, also after capacity that others have to free, and only for that replica.
func TestAvoidedHostsComeLast(t *testing.T) {
	ls := levels("zone", "rack")
	twoRacks := []string{"a0 z/r0 8", "a1 z/r0 8", "a2 z/r0 8", "b0 z/r1 8", "b1 z/r1 8"}
	one := func(size int, hint string, avoid ...string) Demand {
		g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, size, gpus(8))}}
		r := &g.Components[0].Waiting[0]
		if r.Avoid = avoid; hint != "" {
			r.Hint = topology.Path{"z", hint}
		}
		return g
	}
	graph := func(g Demand, edit func(*Demand)) Demand { edit(&g); return g }
	for name, tc := range map[string]struct {
		nodes, running []string
		graph          Demand
		want           []string
	}{
		"nothing is avoided":             {twoRacks, nil, one(2, "r0"), []string{"w-0 z/r0: a0 a1"}},
		"another host of its domain":     {twoRacks, nil, one(2, "r0", "a0"), []string{"w-0 z/r0: a1 a2"}},
		"another domain than its former": {twoRacks, nil, one(2, "r0", "a0", "a1"), []string{"w-0 z/r1: b0 b1"}},
		"nothing else is left":           {twoRacks, []string{"b0 x 0 8"}, one(2, "", "a0", "a1"), []string{"w-0 z/r0: a1 a2"}},
		"the worst is given up last":     {twoRacks, []string{"b0 x 0 8"}, one(2, "", "a1", "a0"), []string{"w-0 z/r0: a0 a2"}},
		"all are needed":                 {twoRacks, nil, one(3, "", "a2"), []string{"w-0 z/r0: a0 a1 a2"}},
		"it does not fit anywhere":       {twoRacks, nil, one(4, "", "a2", "b0"), []string{"w-0 NeverFits"}},
		"others free capacity first": {
			twoRacks, []string{"b0 x 0 8"}, graph(one(2, "", "a0", "a1"), func(g *Demand) { g.Preempts, g.Priority = true, 10 }),
			[]string{"w-0 z/r1: b0 b1"},
		},
		"the other replicas may use it": {
			[]string{"a0 z/r0 8", "b0 z/r1 8"}, nil, graph(one(1, "", "a0"), func(g *Demand) {
				g.Components[0].Required = none
				g.Components[0].Waiting = append(g.Components[0].Waiting, componentOf("w", 1, none, 2, 1, gpus(8)).Waiting[1])
			}), []string{"w-0 : b0", "w-1 : a0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithGangs(ls, tc.nodes...)
			runs(c, tc.running...)
			r := PlanGraph(c, tc.graph, Options{})
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			reserved := 0
			c.Reservations(func(string, string, *topology.Shape) { reserved++ })
			want := 0
			for _, one := range r.Replicas {
				want += len(one.Pods)
			}
			if reserved != want {
				t.Errorf("%d reservations for %d placed pods", reserved, want)
			}
		})
	}
}

// What is given up for one plan is avoided again in the next one.
func TestAvoidedHostsOfTheCallerStay(t *testing.T) {
	ls := levels("zone", "rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 1, gpus(8))}}
	g.Components[0].Waiting[0].Avoid = []string{"a0", "a1"}
	shape := g.Components[0].Waiting[0].Pods[0].Shape
	PlanGraph(clusterOf(ls, "a0 z/r0 8"), g, Options{})
	r := g.Components[0].Waiting[0]
	if diff := cmp.Diff([]string{"a0", "a1"}, r.Avoid); diff != "" || r.Pods[0].Shape != shape {
		t.Errorf("the caller's replica has changed (-want +got):\n%s", diff)
	}
}

// Pods are not placed where a scheduler refused such pods, and where it did so long ago only for want of another place.
func TestRefusedPlaces(t *testing.T) {
	ls := levels("zone", "rack")
	twoRacks := []string{"a0 z/r0 8", "a1 z/r0 8", "a2 z/r0 8", "b0 z/r1 8", "b1 z/r1 8", "b2 z/r1 8"}
	rack := func(r string) topology.Refused {
		return topology.Refused{Labels: map[string]string{ls[0].Key: "z", ls[1].Key: r}}
	}
	host := func(name string) topology.Refused { return topology.Refused{Host: name} }
	for name, tc := range map[string]struct {
		required int
		size     int
		refused  []RefusedPlace
		want     []string
	}{
		"a rack":                      {1, 2, []RefusedPlace{{Refused: rack("r0")}}, []string{"w-0 z/r1: b0 b1"}},
		"a host":                      {1, 2, []RefusedPlace{{Refused: host("a0")}}, []string{"w-0 z/r0: a1 a2"}},
		"a host of the zone":          {0, 4, []RefusedPlace{{Refused: host("a0")}}, []string{"w-0 z: a1 b0 b1 b2"}},
		"a rack comes last":           {1, 2, []RefusedPlace{{rack("r0"), true}}, []string{"w-0 z/r1: b0 b1"}},
		"both come last":              {1, 2, []RefusedPlace{{rack("r0"), true}, {rack("r1"), true}}, []string{"w-0 z/r0: a0 a1"}},
		"one comes last":              {1, 2, []RefusedPlace{{Refused: rack("r0")}, {rack("r1"), true}}, []string{"w-0 z/r1: b0 b1"}},
		"both":                        {1, 2, []RefusedPlace{{Refused: rack("r0")}, {Refused: rack("r1")}}, []string{"w-0 InsufficientCapacity"}},
		"the last places are not all": {1, 3, []RefusedPlace{{host("a0"), true}, {Refused: host("b0")}}, []string{"w-0 z/r0: a0 a1 a2"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithGangs(ls, twoRacks...)
			g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", tc.required, none, 1, tc.size, gpus(8))}}
			g.Refused = map[string][]RefusedPlace{g.Components[0].Waiting[0].Pods[0].Shape.Digest(): tc.refused}
			r := PlanGraph(c, g, Options{})
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}
