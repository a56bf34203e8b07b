// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestGraphRules covers docs/placement.md, rule by rule: one line per replica, "service-ordinal domain: nodes" or the code of the refusal.
func TestGraphRules(t *testing.T) {
	ls := levels("zone", "rack")
	const zone, rack = 0, 1
	hinted := func(s Component, path ...string) Component {
		for i := range s.Waiting {
			s.Waiting[i].Hint = path
		}
		return s
	}
	// Two zones of two racks with two 8-GPU hosts each; zone-a is half full.
	half := []string{"a1 a/r1 8", "a2 a/r1 8", "a3 a/r2 8 used=8", "a4 a/r2 8 used=8", "b1 b/r1 8", "b2 b/r1 8", "b3 b/r2 8", "b4 b/r2 8"}
	cases := map[string]struct {
		nodes  []string
		graph  Demand
		want   []string
		domain string
		short  string
	}{
		"base gang and look-ahead: the zone that holds all replicas, not the tighter one": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", none, none, 2, 1, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 b: b1", "decode-1 b: b3", "prefill-0 b: b2"}, domain: "b"},
		"the example of the package comment": {
			nodes: []string{"a1 zone-a/rack-1 8", "a2 zone-a/rack-1 8", "a3 zone-a/rack-2 8", "a4 zone-a/rack-2 4",
				"b1 zone-b/rack-1 8", "b2 zone-b/rack-1 8", "b3 zone-b/rack-2 8", "b4 zone-b/rack-2 8", "b5 zone-b/rack-2 2"},
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", rack, none, 2, 2, gpus(8)), componentOf("router", none, none, 1, 1, gpus(2))}},
			want:   []string{"decode-0 zone-b/rack-1: b1 b2", "decode-1 zone-b/rack-2: b3 b4", "router-0 zone-b: b5"},
			domain: "zone-b"},
		"the tighter zone when it holds all": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", none, none, 1, 1, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 a: a1", "prefill-0 a: a2"}, domain: "a"},
		"base gang first: no service takes the capacity of another's first replica": {nodes: half[:4],
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", none, none, 3, 1, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want:   []string{"decode-0 a: a1", "decode-1 InsufficientCapacity", "decode-2 InsufficientCapacity", "prefill-0 a: a2"},
			domain: "a", short: "a holds 2 of 4 replicas; missing: decode 2"},
		"two single-node services choose their racks with each other in mind": {
			nodes: []string{"a1 a/r1 8", "a2 a/r2 8"},
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", rack, none, 2, 1, gpus(4)), componentOf("prefill", rack, none, 3, 1, gpus(2)),
				componentOf("router", none, none, 1, 1, gpus(1))}},
			want:   []string{"decode-0 a/r1: a1", "decode-1 a/r1: a1", "prefill-0 a/r2: a2", "prefill-1 a/r2: a2", "prefill-2 a/r2: a2", "router-0 a: a2"},
			domain: "a"},
		"a base gang that does not fit places nothing": {nodes: half[:4],
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", none, none, 2, 2, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 InsufficientCapacity", "decode-1 BaseGangWaits", "prefill-0 InsufficientCapacity"}},
		"multinode replicas may sit in different racks of the graph's zone": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{componentOf("decode", rack, none, 2, 2, gpus(8))}},
			want:  []string{"decode-0 b/r1: b1 b2", "decode-1 b/r2: b3 b4"}, domain: "b"},
		"all replicas of a single-node service share one rack, chosen with a view to all": {
			nodes: []string{"a1 a/r1 1", "a2 a/r2 4", "a3 a/r3 3"},
			graph: Demand{Required: none, Preferred: none, Components: []Component{componentOf("router", rack, none, 3, 1, gpus(1))}},
			want:  []string{"router-0 a/r3: a3", "router-1 a/r3: a3", "router-2 a/r3: a3"}},
		"a single-node service that no rack holds whole takes the rack that holds most": {
			nodes: []string{"a1 a/r1 1", "a2 a/r2 2", "a3 a/r3 1"},
			graph: Demand{Required: none, Preferred: none, Components: []Component{componentOf("router", rack, none, 3, 1, gpus(1))}},
			want:  []string{"router-0 a/r2: a2", "router-1 a/r2: a2", "router-2 InsufficientCapacity"}},
		"a running replica anchors a single-node service": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				{Name: "router", Required: rack, Preferred: none, Anchor: topology.Path{"b", "r2"}, Placed: 1,
					Waiting: []Replica{{Ordinal: 4, Pods: pods("r4", 1, gpus(8))}}}}},
			want: []string{"router-4 b/r2: b3"}},
		"the anchor is a hard rule": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Components: []Component{componentOf("decode", rack, none, 2, 2, gpus(8))}},
			want:  []string{"decode-0 a/r1: a1 a2", "decode-1 InsufficientCapacity"}, domain: "a", short: "a holds 1 of 2 replicas; missing: decode 1"},
		"an anchor without nodes still holds": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Anchor: topology.Path{"c"}, Components: []Component{componentOf("decode", rack, none, 1, 2, gpus(8))}},
			want:  []string{"decode-0 DomainGone"}, domain: "c", short: "c holds 0 of 1 replicas; missing: decode 1"},
		"a replica cut short follows its own pods": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{{Name: "decode", Multinode: true, Required: rack, Preferred: none,
				Waiting: []Replica{{Ordinal: 0, Anchor: topology.Path{"b", "r2"}, Pods: pods("d", 1, gpus(8))}}}}},
			want: []string{"decode-0 b/r2: b3"}},
		"a replica returns to its former rack though another is first by path": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{hinted(componentOf("decode", rack, none, 1, 2, gpus(8)), "b", "r2")}},
			want:  []string{"decode-0 b/r2: b3 b4"}},
		"a replica whose former rack is full moves whole": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{hinted(componentOf("decode", rack, none, 1, 2, gpus(8)), "a", "r2")}},
			want:  []string{"decode-0 a/r1: a1 a2"}},
		"a free graph returns to its former zone when that holds as many": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{hinted(componentOf("decode", rack, none, 1, 2, gpus(8)), "b", "r2")}},
			want:  []string{"decode-0 b/r2: b3 b4"}, domain: "b"},
		"a preferred rack inside the required zone": {nodes: half,
			graph: Demand{Required: zone, Preferred: rack, Components: []Component{
				componentOf("decode", none, none, 2, 1, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 b/r1: b1", "decode-1 b/r2: b3", "prefill-0 b/r1: b2"}, domain: "b"},
		"preferred only: replicas gather in one rack, then climb": {
			nodes: []string{"a1 a/r1 2", "a2 a/r2 2", "b1 b/r1 3"},
			graph: Demand{Required: none, Preferred: rack, Components: []Component{componentOf("w", none, none, 4, 2, gpus(1))}},
			want:  []string{"w-0 a/r1: a1 a1", "w-1 a/r2: a2 a2", "w-2 b/r1: b1 b1", "w-3 InsufficientCapacity"}},
		"preferred never anchors, but domains in use come first": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				{Name: "w", Multinode: true, Required: none, Preferred: rack, InUse: []topology.Path{{"b", "r2"}}, Placed: 1,
					Waiting: []Replica{{Ordinal: 1, Pods: pods("w1", 2, gpus(4))}, {Ordinal: 2, Pods: pods("w2", 2, gpus(8))}}}}},
			want: []string{"w-1 b/r2: b3 b3", "w-2 a/r1: a1 a2"}},
		"a level that is gone places nothing": {nodes: half,
			graph: Demand{Required: topology.GoneLevel, Preferred: none, Components: []Component{componentOf("decode", none, none, 1, 2, gpus(8))}},
			want:  []string{"decode-0 LevelGone"}},
		"a service whose level is gone waits, the others go on": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				componentOf("decode", topology.GoneLevel, none, 1, 2, gpus(8)), componentOf("prefill", rack, none, 1, 2, gpus(8))}},
			want: []string{"decode-0 LevelGone", "prefill-0 a/r1: a1 a2"}},
		"a base gang waits for the level of one of its services": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				componentOf("decode", topology.GoneLevel, none, 1, 2, gpus(8)), componentOf("prefill", rack, none, 1, 2, gpus(8))}},
			want: []string{"decode-0 LevelGone", "prefill-0 BaseGangWaits"}},
		"an anchor outside the graph domain": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Components: []Component{{Name: "decode", Multinode: true,
				Required: rack, Preferred: none, Waiting: []Replica{{Anchor: topology.Path{"b", "r2"}, Pods: pods("d", 1, gpus(8))}}}}},
			want: []string{"decode-0 AnchorConflict"}, domain: "a", short: "a holds 0 of 1 replicas; missing: decode 1"},
		"running replicas without an anchor: each service is reported for itself": {nodes: half[:4],
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				{Name: "decode", Multinode: true, Required: rack, Preferred: none, Placed: 1, Waiting: componentOf("d", rack, none, 1, 4, gpus(8)).Waiting}}},
			want: []string{"decode-0 NeverFits"}},
		"replicas without pods are placed": {nodes: half,
			graph: Demand{Required: zone, Preferred: rack, Components: []Component{componentOf("decode", rack, none, 1, 0, nil)}},
			want:  []string{"decode-0 a/r1:"}, domain: "a"},
		"a level that no node carries": {nodes: []string{"a1 a 8"},
			graph: Demand{Required: none, Preferred: none, Components: []Component{componentOf("decode", rack, none, 1, 1, gpus(8))}},
			want:  []string{"decode-0 NoDomain"}},
		"preferred levels that no node carries block nothing": {nodes: []string{"a1 a 8"},
			graph: Demand{Required: zone, Preferred: rack, Components: []Component{componentOf("decode", none, none, 1, 1, gpus(8))}},
			want:  []string{"decode-0 a: a1"}, domain: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.graph.Levels = ls
			r := PlanGraph(clusterOf(ls, tc.nodes...), tc.graph, Options{})
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			if got := r.Domain.String(); got != tc.domain {
				t.Errorf("graph domain %q, want %q", got, tc.domain)
			}
			short := ""
			if r.Shortfall != nil {
				short = r.Shortfall.Text()
			}
			if diff := cmp.Diff(tc.short, short); diff != "" {
				t.Errorf("shortfall (-want +got):\n%s", diff)
			}
			for _, one := range r.Replicas {
				if one.Refusal != nil && one.Refusal.Message() == "" {
					t.Errorf("%s-%d refused without a word", one.Component, one.Ordinal)
				}
			}
		})
	}
}

func TestGraphWithoutLevels(t *testing.T) {
	ls := levels("zone")
	c := clusterOf(ls, "a1 a 8", "b1 b 8")
	r := PlanGraph(c, Demand{Components: []Component{componentOf("w", 0, 0, 2, 2, gpus(4))}}, Options{})
	want := []string{"w-0 : a1 a1", "w-1 : b1 b1"}
	if diff := cmp.Diff(want, summary(r)); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if r.Score != 1 {
		t.Errorf("score %v, want 1", r.Score)
	}
}

// TestTwoGraphsRaceForTheLastRack: one gets it whole, the other waits, and its refusal explains why; neither holds half.
func TestTwoGraphsRaceForTheLastRack(t *testing.T) {
	ls := levels("rack")
	c := clusterOf(ls, "a1 r1 8", "a2 r1 8")
	one := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("one", 0, none, 1, 2, gpus(8))}}
	two := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("two", 0, none, 1, 2, gpus(8))}}
	first, second := PlanGraph(c, one, Options{}), PlanGraph(c, two, Options{})
	if !first.Placed() || second.Placed() {
		t.Fatalf("placed %v and %v, want true and false", first.Placed(), second.Placed())
	}
	want := "needs 2 pods x 8 nvidia.com/gpu in one rack; r1 holds 0 of 2 (2 hosts short of nvidia.com/gpu)"
	if diff := cmp.Diff(want, second.Replicas[0].Refusal.Message()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	for _, p := range one.Components[0].Waiting[0].Pods {
		c.Forget(p.ID)
	}
	if again := PlanGraph(c, two, Options{}); !again.Placed() {
		t.Errorf("refused on a free rack: %s", again.Replicas[0].Refusal.Message())
	}
}

func TestWhatIfLeavesNoTrace(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, "a1 a/r1 8", "a2 a/r1 8")
	g := Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}
	c.Begin()
	if r := PlanGraph(c, g, Options{}); !r.Placed() {
		t.Fatal(r.Replicas[0].Refusal.Message())
	}
	c.Rollback()
	if _, held := c.Reserved("w-0-0"); held {
		t.Error("the reservation of a what-if stayed")
	}
	if r := PlanGraph(c, g, Options{}); !r.Placed() {
		t.Error("refused after a what-if was dropped")
	}
}

// A refusal reports when the running pods of the graph are all that keeps a gang out: another domain would hold it.
func TestRefusalNamesWhereThereIsCapacity(t *testing.T) {
	ls := levels("zone", "rack")
	nodes := []string{"a1 a/r1 8 used=8", "a2 a/r1 8", "b1 b/r1 8", "b2 b/r1 8"}
	g := Demand{Levels: ls, Required: 0, Preferred: none, Anchor: topology.Path{"a"}, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}
	r := PlanGraph(clusterOf(ls, nodes...), g, Options{})
	refusal := r.Replicas[0].Refusal
	if refusal == nil || !refusal.Elsewhere.Equal(topology.Path{"b"}) {
		t.Fatalf("refusal %+v, want it to name zone b", refusal)
	}
	if want := "b has capacity, but running pods anchor the graph in a (see kubectl trellis explain); needs 2 pods"; !strings.HasPrefix(refusal.Message(), want) {
		t.Errorf("%q, want it to begin with %q", refusal.Message(), want)
	}
	scattered := append(slices.Clone(nodes[:2]), "b1 b/r1 8", "b2 b/r2 8")
	if refusal := PlanGraph(clusterOf(ls, scattered...), g, Options{}).Replicas[0].Refusal; refusal == nil || len(refusal.Elsewhere) > 0 {
		t.Errorf("zone b has both hosts, in two racks: %+v", refusal)
	}
	g.Anchor = nil
	if r := PlanGraph(clusterOf(ls, nodes...), g, Options{}); r.Replicas[0].Refusal != nil {
		t.Errorf("free to choose: %s", r.Replicas[0].Refusal.Message())
	}
}
