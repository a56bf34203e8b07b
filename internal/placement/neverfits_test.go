// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// What no domain would hold even when it is empty has a reason of its own, which names the largest.
func TestNeverFits(t *testing.T) {
	ls := levels("zone", "rack")
	racks := []string{"a0 z/a 8 used=8", "a1 z/a 8 used=8", "a2 z/a 8", "a3 z/a 8 cordoned", "b0 z/b 8", "b1 z/b 8 notready", "c0 z/c 4", "c1 z/c 4", "c2 z/c 4", "c3 z/c 4"}
	one := func(required int, s ...Component) Demand {
		return Demand{Levels: ls, Required: required, Preferred: none, Components: s}
	}
	onlyOn := func(value string) *topology.Shape {
		pod := podOf(map[string]string{gpu: "8"})
		pod.Spec.NodeSelector = map[string]string{"kind": value}
		return topology.ShapeOf(pod)
	}
	both := podOf(map[string]string{gpu: "8", "cpu": "2000"})
	for name, tc := range map[string]struct {
		nodes []string
		graph Demand
		code  string
		want  string
	}{
		"more hosts than a rack has": {racks, one(none, componentOf("w", 1, none, 1, 6, gpus(8))), CodeNeverFits,
			"no rack has 6 hosts: the largest has 4 (z/a); needs 6 pods x 8 nvidia.com/gpu in one rack"},
		"as many as the largest rack has": {racks, one(none, componentOf("w", 1, none, 1, 4, gpus(8))), CodeInsufficientCapacity, ""},
		"more hosts of that size than a rack has": {[]string{"a0 z/a 8", "a1 z/a 8", "a2 z/a 4", "a3 z/a 4"}, one(none, componentOf("w", 1, none, 1, 3, gpus(8))), CodeNeverFits,
			"no rack has 3 hosts of 8 nvidia.com/gpu: the largest has 2 (z/a); needs 3 pods x 8 nvidia.com/gpu in one rack"},
		"more GPUs than a host has": {racks, one(none, componentOf("w", 1, none, 1, 1, gpus(16))), CodeNeverFits,
			"no host has 16 nvidia.com/gpu: the largest has 8; needs 1 pod x 16 nvidia.com/gpu in one rack"},
		"a resource that none has": {racks, one(none, componentOf("w", none, none, 1, 1, topology.ShapeOf(podOf(map[string]string{"example.com/nic": "1"})))), CodeNeverFits,
			"no host has example.com/nic; needs 1 pod x 1 example.com/nic in the cluster"},
		"no host has both": {[]string{"a0 z/a 8", "a1 z/a 0 cpu=4000"}, one(none, componentOf("w", 1, none, 1, 1, topology.ShapeOf(both))), CodeNeverFits,
			"no host has 2k cpu and 8 nvidia.com/gpu together; needs 1 pod x 8 nvidia.com/gpu in one rack"},
		"several pods a host": {racks, one(none, componentOf("w", 1, none, 1, 20, gpus(2))), CodeNeverFits,
			"no rack holds 20 pods x 2 nvidia.com/gpu, even when empty: the largest holds 16 (z/a: 32 of 40 nvidia.com/gpu); needs 20 pods x 2 nvidia.com/gpu in one rack"},
		"more than the cluster": {racks, one(none, componentOf("w", none, none, 1, 7, gpus(8))), CodeNeverFits,
			"the cluster holds 6 of 7 pods x 8 nvidia.com/gpu, even when empty; needs 7 pods x 8 nvidia.com/gpu in the cluster"},
		"a part of the base gang": {racks, one(0, componentOf("w", 1, none, 2, 6, gpus(8)), componentOf("f", none, none, 1, 1, gpus(1))), CodeNeverFits,
			"no rack has 6 hosts: the largest has 4 (z/a); needs 6 pods x 8 nvidia.com/gpu + 1 pod x 1 nvidia.com/gpu in one zone"},
		"shapes that do not fit together": {racks[:6], one(1, componentOf("w", none, none, 1, 3, gpus(8)), componentOf("x", none, none, 1, 3, gpus(6))), CodeNeverFits,
			"no rack holds these 6 pods together, even when empty; needs 3 pods x 8 nvidia.com/gpu + 3 pods x 6 nvidia.com/gpu in one rack"},
		"a level key that no node has": {[]string{"a0 z 8", "a1 z 8"}, one(none, componentOf("w", 1, none, 1, 2, gpus(8))), CodeNoDomain,
			"no node has label topology.example/rack of level 'rack': correct the key of the level, or label the nodes; needs 2 pods x 8 nvidia.com/gpu in one rack"},
		"and a part of the base gang needs it": {[]string{"a0 z 8", "a1 z 8"}, one(0, componentOf("w", 1, none, 1, 2, gpus(8)), componentOf("f", none, none, 1, 1, gpus(1))), CodeNoDomain,
			"no node has label topology.example/rack of level 'rack': correct the key of the level, or label the nodes; needs 2 pods x 8 nvidia.com/gpu + 1 pod x 1 nvidia.com/gpu in one zone"},
		"hosts that lack the label would do": {[]string{"a0 z/a 8", "a1 z/a 8", "b0 z 8", "b1 z 8", "b2 z 4"}, one(none, componentOf("w", 1, none, 1, 4, gpus(8))), CodeNoDomain,
			"no rack has 4 hosts: the largest has 2 (z/a), and 3 of 5 hosts lack label topology.example/rack of level 'rack': label them; needs 4 pods x 8 nvidia.com/gpu in one rack"},
		"hosts that lack the label would not do": {[]string{"a0 z/a 8", "a1 z/a 8", "b0 z 8", "b1 z 4"}, one(none, componentOf("w", 1, none, 1, 4, gpus(8))), CodeNeverFits, ""},
		"nothing matches":                        {racks, one(none, componentOf("w", 1, none, 1, 1, onlyOn("new"))), CodeInsufficientCapacity, ""},
		"the graph's anchor": {append(racks[:6:6], "d0 y/d 8", "d1 y/d 8", "d2 y/d 8", "d3 y/d 8", "d4 y/d 8", "d5 y/d 8"),
			Demand{Levels: ls, Required: 0, Preferred: none, Anchor: topology.Path{"z"}, Components: []Component{componentOf("w", 1, none, 1, 6, gpus(8))}}, CodeInsufficientCapacity, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, tc.nodes...)
			r := PlanGraph(c, tc.graph, Options{})
			why := r.Replicas[len(r.Replicas)-1].Refusal
			if why != nil && why.Code == CodeBaseGangWaits {
				why = why.Cause
			}
			if why == nil || why.Code != tc.code {
				t.Fatalf("got %+v, want %s", why, tc.code)
			}
			if got := why.Message(); tc.want != "" && got != tc.want {
				t.Errorf("message\n%s\nwant\n%s", got, tc.want)
			}
			if empty, needs := WhenEmpty(c, tc.graph, &r, nil, 100, Options{}); tc.code == CodeNeverFits && (empty != nil || needs != 0) {
				t.Errorf("hosts would be reserved: %+v", empty)
			}
		})
	}
}

// Nodes that come later are counted, and no pods have to leave for what does not fit all the same.
func TestNeverFitsIsOfToday(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterWithGangs(ls, "a0 z/a 8", "a1 z/a 8")
	runs(c, "a0 low 0 8", "a1 low 0 8")
	g := Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{componentOf("w", 1, none, 1, 3, gpus(8))}}
	r := PlanGraph(c, g, Options{})
	if why := r.Replicas[0].Refusal; why == nil || why.Code != CodeNeverFits {
		t.Fatalf("got %+v, want %s", r.Replicas[0], CodeNeverFits)
	}
	u := UnmetOf(g, &r)
	c.SetNode(nodeOf(ls, "a2 z/a 8"))
	if r := PlanGraph(c, g, Options{}); r.Replicas[0].Refusal != nil || r.Replicas[0].Preempts == nil {
		t.Errorf("the rack is large enough now, and pods of lower priority run there: %+v", r.Replicas[0])
	}
	c.SetNode(nodeOf(ls, "b0 z/b 8"))
	c.SetNode(nodeOf(ls, "b1 z/b 8"))
	if u.MayFit(c, "b1") {
		t.Error("the new rack has two hosts of three")
	}
	c.SetNode(nodeOf(ls, "b2 z/b 8"))
	if !u.MayFit(c, "b2") {
		t.Error("the new rack holds it, and it is not looked at again")
	}
}

// What never fits does not fit into the empty cluster: by brute force.
func TestNeverFitsIsCertain(t *testing.T) {
	never, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		left := 8
		g := drawGroup(t, "g", none, 2, &left)
		c := w.cluster(inOrder(len(w.paths)))
		for i := range w.paths {
			c.SetPod(busy(i, rapid.IntRange(0, w.gpu[i]).Draw(t, fmt.Sprint("busy gpu", i)), rapid.IntRange(0, w.cpu[i]).Draw(t, fmt.Sprint("busy cpu", i))))
		}
		tree := c.Tree(w.levels, nil)
		why := newSearch(c, tree, Options{}).never(prepare(tree, g), g.Required)
		fits := w.brute(g)
		if why != nil && fits {
			t.Fatalf("it fits when nothing runs: %+v", why)
		}
		if why != nil {
			never++
		}
		if !fits {
			refused++
		}
	})
	if never*2 < refused {
		t.Errorf("it is known of %d of %d only", never, refused)
	}
}
