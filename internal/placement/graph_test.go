// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestGraphRules covers design §4.4-4.8, rule by rule: one line per replica, "service-ordinal domain: nodes" or the code of the refusal.
func TestGraphRules(t *testing.T) {
	ls := levels("zone", "rack")
	const zone, rack = 0, 1
	hinted := func(s Service, path ...string) Service {
		for i := range s.Waiting {
			s.Waiting[i].Hint = path
		}
		return s
	}
	// Two zones of two racks with two 8-GPU hosts each; zone-a is half full.
	half := []string{"a1 a/r1 8", "a2 a/r1 8", "a3 a/r2 8 used=8", "a4 a/r2 8 used=8", "b1 b/r1 8", "b2 b/r1 8", "b3 b/r2 8", "b4 b/r2 8"}
	cases := map[string]struct {
		nodes  []string
		graph  Graph
		want   []string
		domain string
		short  string
	}{
		"base gang and look-ahead: the zone that holds all replicas, not the tighter one": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", none, none, 2, 1, gpus(8)), serviceOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 b: b1", "decode-1 b: b3", "prefill-0 b: b2"}, domain: "b"},
		"the example of the package comment": {
			nodes: []string{"a1 zone-a/rack-1 8", "a2 zone-a/rack-1 8", "a3 zone-a/rack-2 8", "a4 zone-a/rack-2 4",
				"b1 zone-b/rack-1 8", "b2 zone-b/rack-1 8", "b3 zone-b/rack-2 8", "b4 zone-b/rack-2 8", "b5 zone-b/rack-2 2"},
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", rack, none, 2, 2, gpus(8)), serviceOf("router", none, none, 1, 1, gpus(2))}},
			want:   []string{"decode-0 zone-b/rack-1: b1 b2", "decode-1 zone-b/rack-2: b3 b4", "router-0 zone-b: b5"},
			domain: "zone-b"},
		"the tighter zone when it holds all": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", none, none, 1, 1, gpus(8)), serviceOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 a: a1", "prefill-0 a: a2"}, domain: "a"},
		"base gang first: no service takes the room of another's first replica": {nodes: half[:4],
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", none, none, 3, 1, gpus(8)), serviceOf("prefill", none, none, 1, 1, gpus(8))}},
			want:   []string{"decode-0 a: a1", "decode-1 InsufficientCapacity", "decode-2 InsufficientCapacity", "prefill-0 a: a2"},
			domain: "a", short: "a holds 2 of 4 replicas; missing: decode 2"},
		"two single-node services choose their racks with each other in mind": {
			nodes: []string{"a1 a/r1 8", "a2 a/r2 8"},
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", rack, none, 2, 1, gpus(4)), serviceOf("prefill", rack, none, 3, 1, gpus(2)),
				serviceOf("router", none, none, 1, 1, gpus(1))}},
			want:   []string{"decode-0 a/r1: a1", "decode-1 a/r1: a1", "prefill-0 a/r2: a2", "prefill-1 a/r2: a2", "prefill-2 a/r2: a2", "router-0 a: a2"},
			domain: "a"},
		"a base gang that does not fit places nothing": {nodes: half[:4],
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", none, none, 2, 2, gpus(8)), serviceOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 InsufficientCapacity", "decode-1 BaseGangWaits", "prefill-0 InsufficientCapacity"}},
		"multinode replicas may sit in different racks of the graph's zone": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Services: []Service{serviceOf("decode", rack, none, 2, 2, gpus(8))}},
			want:  []string{"decode-0 b/r1: b1 b2", "decode-1 b/r2: b3 b4"}, domain: "b"},
		"all replicas of a single-node service share one rack, chosen with a view to all": {
			nodes: []string{"a1 a/r1 1", "a2 a/r2 4", "a3 a/r3 3"},
			graph: Graph{Required: none, Preferred: none, Services: []Service{serviceOf("router", rack, none, 3, 1, gpus(1))}},
			want:  []string{"router-0 a/r3: a3", "router-1 a/r3: a3", "router-2 a/r3: a3"}},
		"a single-node service that no rack holds whole takes the rack that holds most": {
			nodes: []string{"a1 a/r1 1", "a2 a/r2 2", "a3 a/r3 1"},
			graph: Graph{Required: none, Preferred: none, Services: []Service{serviceOf("router", rack, none, 3, 1, gpus(1))}},
			want:  []string{"router-0 a/r2: a2", "router-1 a/r2: a2", "router-2 InsufficientCapacity"}},
		"a living replica anchors a single-node service": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{
				{Name: "router", Required: rack, Preferred: none, Anchor: topology.Path{"b", "r2"}, Placed: 1,
					Waiting: []Replica{{Ordinal: 4, Pods: pods("r4", 1, gpus(8))}}}}},
			want: []string{"router-4 b/r2: b3"}},
		"the anchor is a hard rule": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Services: []Service{serviceOf("decode", rack, none, 2, 2, gpus(8))}},
			want:  []string{"decode-0 a/r1: a1 a2", "decode-1 InsufficientCapacity"}, domain: "a", short: "a holds 1 of 2 replicas; missing: decode 1"},
		"an anchor without nodes still holds": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Anchor: topology.Path{"c"}, Services: []Service{serviceOf("decode", rack, none, 1, 2, gpus(8))}},
			want:  []string{"decode-0 DomainGone"}, domain: "c", short: "c holds 0 of 1 replicas; missing: decode 1"},
		"a replica cut short follows its own pods": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{{Name: "decode", Multinode: true, Required: rack, Preferred: none,
				Waiting: []Replica{{Ordinal: 0, Anchor: topology.Path{"b", "r2"}, Pods: pods("d", 1, gpus(8))}}}}},
			want: []string{"decode-0 b/r2: b3"}},
		"a replica returns to its former rack though another is first by path": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{hinted(serviceOf("decode", rack, none, 1, 2, gpus(8)), "b", "r2")}},
			want:  []string{"decode-0 b/r2: b3 b4"}},
		"a replica whose former rack is full moves whole": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{hinted(serviceOf("decode", rack, none, 1, 2, gpus(8)), "a", "r2")}},
			want:  []string{"decode-0 a/r1: a1 a2"}},
		"a free graph returns to its former zone when that holds as many": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Services: []Service{hinted(serviceOf("decode", rack, none, 1, 2, gpus(8)), "b", "r2")}},
			want:  []string{"decode-0 b/r2: b3 b4"}, domain: "b"},
		"a preferred rack inside the required zone": {nodes: half,
			graph: Graph{Required: zone, Preferred: rack, Services: []Service{
				serviceOf("decode", none, none, 2, 1, gpus(8)), serviceOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 b/r1: b1", "decode-1 b/r2: b3", "prefill-0 b/r1: b2"}, domain: "b"},
		"preferred only: replicas gather in one rack, then climb": {
			nodes: []string{"a1 a/r1 2", "a2 a/r2 2", "b1 b/r1 3"},
			graph: Graph{Required: none, Preferred: rack, Services: []Service{serviceOf("w", none, none, 4, 2, gpus(1))}},
			want:  []string{"w-0 a/r1: a1 a1", "w-1 a/r2: a2 a2", "w-2 b/r1: b1 b1", "w-3 InsufficientCapacity"}},
		"preferred never anchors, but domains in use come first": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{
				{Name: "w", Multinode: true, Required: none, Preferred: rack, InUse: []topology.Path{{"b", "r2"}}, Placed: 1,
					Waiting: []Replica{{Ordinal: 1, Pods: pods("w1", 2, gpus(4))}, {Ordinal: 2, Pods: pods("w2", 2, gpus(8))}}}}},
			want: []string{"w-1 b/r2: b3 b3", "w-2 a/r1: a1 a2"}},
		"a level that is gone places nothing": {nodes: half,
			graph: Graph{Required: topology.GoneLevel, Preferred: none, Services: []Service{serviceOf("decode", none, none, 1, 2, gpus(8))}},
			want:  []string{"decode-0 LevelGone"}},
		"a service whose level is gone waits, the others go on": {nodes: half,
			graph: Graph{Required: none, Preferred: none, Services: []Service{
				serviceOf("decode", topology.GoneLevel, none, 1, 2, gpus(8)), serviceOf("prefill", rack, none, 1, 2, gpus(8))}},
			want: []string{"decode-0 LevelGone", "prefill-0 a/r1: a1 a2"}},
		"a base gang waits for the level of one of its services": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				serviceOf("decode", topology.GoneLevel, none, 1, 2, gpus(8)), serviceOf("prefill", rack, none, 1, 2, gpus(8))}},
			want: []string{"decode-0 LevelGone", "prefill-0 BaseGangWaits"}},
		"an anchor outside the graph domain": {nodes: half,
			graph: Graph{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Services: []Service{{Name: "decode", Multinode: true,
				Required: rack, Preferred: none, Waiting: []Replica{{Anchor: topology.Path{"b", "r2"}, Pods: pods("d", 1, gpus(8))}}}}},
			want: []string{"decode-0 AnchorConflict"}, domain: "a", short: "a holds 0 of 1 replicas; missing: decode 1"},
		"living replicas without an anchor: each service is told for itself": {nodes: half[:4],
			graph: Graph{Required: zone, Preferred: none, Services: []Service{
				{Name: "decode", Multinode: true, Required: rack, Preferred: none, Placed: 1, Waiting: serviceOf("d", rack, none, 1, 4, gpus(8)).Waiting}}},
			want: []string{"decode-0 InsufficientCapacity"}},
		"replicas without pods are placed": {nodes: half,
			graph: Graph{Required: zone, Preferred: rack, Services: []Service{serviceOf("decode", rack, none, 1, 0, nil)}},
			want:  []string{"decode-0 a/r1:"}, domain: "a"},
		"a level that no node carries": {nodes: []string{"a1 a 8"},
			graph: Graph{Required: none, Preferred: none, Services: []Service{serviceOf("decode", rack, none, 1, 1, gpus(8))}},
			want:  []string{"decode-0 NoDomain"}},
		"preferred levels that no node carries block nothing": {nodes: []string{"a1 a 8"},
			graph: Graph{Required: zone, Preferred: rack, Services: []Service{serviceOf("decode", none, none, 1, 1, gpus(8))}},
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
					t.Errorf("%s-%d refused without a word", one.Service, one.Ordinal)
				}
			}
		})
	}
}

func TestGraphWithoutLevels(t *testing.T) {
	ls := levels("zone")
	c := clusterOf(ls, "a1 a 8", "b1 b 8")
	r := PlanGraph(c, Graph{Services: []Service{serviceOf("w", 0, 0, 2, 2, gpus(4))}}, Options{})
	want := []string{"w-0 : a1 a1", "w-1 : b1 b1"}
	if diff := cmp.Diff(want, summary(r)); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if r.Score != 1 {
		t.Errorf("score %v, want 1", r.Score)
	}
}

// TestTwoGraphsRaceForTheLastRack: one gets it whole, the other waits and is told why; neither holds half.
func TestTwoGraphsRaceForTheLastRack(t *testing.T) {
	ls := levels("rack")
	c := clusterOf(ls, "a1 r1 8", "a2 r1 8")
	one := Graph{Levels: ls, Required: none, Preferred: none, Services: []Service{serviceOf("one", 0, none, 1, 2, gpus(8))}}
	two := Graph{Levels: ls, Required: none, Preferred: none, Services: []Service{serviceOf("two", 0, none, 1, 2, gpus(8))}}
	first, second := PlanGraph(c, one, Options{}), PlanGraph(c, two, Options{})
	if !first.Placed() || second.Placed() {
		t.Fatalf("placed %v and %v, want true and false", first.Placed(), second.Placed())
	}
	want := "needs 2 pods x 8 nvidia.com/gpu in one rack; r1 holds 0 of 2 (2 hosts short of nvidia.com/gpu)"
	if diff := cmp.Diff(want, second.Replicas[0].Refusal.Message()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	for _, p := range one.Services[0].Waiting[0].Pods {
		c.Forget(p.ID)
	}
	if again := PlanGraph(c, two, Options{}); !again.Placed() {
		t.Errorf("refused on a free rack: %s", again.Replicas[0].Refusal.Message())
	}
}

func TestWhatIfLeavesNoTrace(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, "a1 a/r1 8", "a2 a/r1 8")
	g := Graph{Levels: ls, Required: 0, Preferred: none, Services: []Service{serviceOf("w", 1, none, 1, 2, gpus(8))}}
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

func TestPinHosts(t *testing.T) {
	ls := levels("rack")
	withPort := podOf(map[string]string{gpu: "1"})
	withPort.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
	mixed := serviceOf("w", 0, none, 1, 1, gpus(8))
	mixed.Waiting[0].Pods = append(mixed.Waiting[0].Pods, pods("small", 2, gpus(4))...)
	cases := map[string]struct {
		service Service
		other   *topology.Shape
		want    bool
	}{
		"one shape":                                   {service: serviceOf("w", 0, none, 1, 2, gpus(8))},
		"two shapes in the replica":                   {service: mixed, want: true},
		"another shape reserved in the rack":          {service: serviceOf("w", 0, none, 1, 1, gpus(8)), other: gpus(2), want: true},
		"the same shape reserved in the rack":         {service: serviceOf("w", 0, none, 1, 1, gpus(8)), other: gpus(8)},
		"a host port":                                 {service: serviceOf("w", 0, none, 1, 1, topology.ShapeOf(withPort)), want: true},
		"one per host":                                {service: serviceOf("w", 0, none, 1, 2, onePerHost()), want: true},
		"another shape reserved outside, in no level": {service: serviceOf("w", 0, none, 1, 1, gpus(8))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, "a1 r1 8", "a2 r1 8", "z -  8")
			if tc.other != nil {
				c.Assume("other", "a1", tc.other)
			} else {
				c.Assume("other", "z", gpus(3))
			}
			r := PlanGraph(c, Graph{Levels: ls, Required: none, Preferred: none, Services: []Service{tc.service}}, Options{})
			if !r.Placed() {
				t.Fatal(r.Replicas[0].Refusal.Message())
			}
			if got := r.Replicas[0].PinHosts; got != tc.want {
				t.Errorf("PinHosts %v, want %v", got, tc.want)
			}
		})
	}
}

func TestScore(t *testing.T) {
	ls := levels("zone", "rack")
	cases := map[string]struct {
		nodes []string
		want  float64
	}{
		"one rack":              {nodes: []string{"a1 a/r1 8", "a2 a/r1 8"}, want: 1},
		"two racks of one zone": {nodes: []string{"a1 a/r1 8", "a2 a/r2 8"}, want: 0.75},
		"two zones":             {nodes: []string{"a1 a/r1 8", "b1 b/r1 8"}, want: 0.5},
		"nowhere":               {nodes: []string{"a1 a/r1 8"}, want: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := Graph{Levels: ls, Required: none, Preferred: none, Services: []Service{serviceOf("w", none, none, 1, 2, gpus(8))}}
			if r := PlanGraph(clusterOf(ls, tc.nodes...), g, Options{}); r.Score != tc.want {
				t.Errorf("score %v, want %v", r.Score, tc.want)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	ls := levels("zone", "rack")
	cases := map[string]struct {
		within topology.Path
		pods   []Pod
		want   map[string]string
	}{
		"in the pinned rack":     {within: topology.Path{"b", "r1"}, pods: pods("p", 2, gpus(8)), want: map[string]string{"p-0": "b1", "p-1": "b2"}},
		"large pods first":       {within: topology.Path{"b", "r1"}, pods: append(pods("s", 2, gpus(4)), pods("p", 1, gpus(8))...), want: map[string]string{"s-0": "b2", "s-1": "b2", "p-0": "b1"}},
		"anywhere":               {pods: pods("p", 1, gpus(8)), want: map[string]string{"p-0": "a1"}},
		"too little room":        {within: topology.Path{"a", "r1"}, pods: pods("p", 2, gpus(8))},
		"a rack that is gone":    {within: topology.Path{"a", "r9"}, pods: pods("p", 1, gpus(8))},
		"no pods, nothing to do": {within: topology.Path{"a"}, want: map[string]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, "a1 a/r1 8", "b1 b/r1 8", "b2 b/r1 8")
			got, ok := Locate(c, tc.within, ls, tc.pods)
			if ok != (tc.want != nil) {
				t.Fatalf("found %v, want %v", ok, tc.want != nil)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			for _, p := range tc.pods {
				if node, held := c.Reserved(p.ID); held != ok || held && node != tc.want[p.ID] {
					t.Errorf("%s reserved on %q (%v), want %q", p.ID, node, held, tc.want[p.ID])
				}
			}
		})
	}
}

func TestMessages(t *testing.T) {
	ls := levels("zone", "block", "rack")
	long := strings.Repeat("é", 31)
	cases := map[string]groupCase{
		"the sentence of design §6": {levels: ls,
			nodes: []string{"a z0/b1/r2 8", "b z0/b1/r2 8", "c z0/b1/r2 8", "d z0/b1/r2 8 cordoned", "e z0/b1/r3 8", "f z0/b1/r4 8"},
			group: group("g", 2, none, pods("p", 4, gpus(8))),
			wantWhy: "needs 4 pods x 8 nvidia.com/gpu in one rack; z0/b1/r2 holds 3 of 4 (1 host cordoned); " +
				"2 other racks hold fewer"},
		"scattered room": {levels: ls,
			nodes: []string{"a z/b/r 8 used=4", "b z/b/r 8 used=4", "c z/b/r 8 used=4"}, group: group("g", 2, none, pods("p", 1, gpus(8))),
			wantWhy: "needs 1 pod x 8 nvidia.com/gpu in one rack; z/b/r holds 0 of 1 (3 hosts short of nvidia.com/gpu, " +
				"12 of 8 nvidia.com/gpu free, at most 4 on one host)"},
		"every reason": {levels: ls,
			nodes: []string{"a z/b/r 8 cordoned", "b z/b/r 8 notready", "c z/b/r 8 taint=gpu", "d z/b/r 8 pods=0", "e z/b/r 8", "f z/b/r 8 taint=gpu", "g z/b/r 8 cpu=0 used=8"},
			group: group("g", 2, none, pods("p", 2, gpus(8))),
			wantWhy: "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b/r holds 1 of 2 (2 hosts taint gpu=x:NoSchedule, 1 host cordoned, " +
				"1 host not ready, 1 host pod slots used up, 1 host for other reasons)"},
		"several shapes": {levels: ls, nodes: []string{"a z/b/r 8", "b z/b/r 8"},
			group:   group("g", 2, none, append(pods("lead", 1, cpus(2)), pods("work", 3, gpus(8))...)),
			wantWhy: "needs 3 pods x 8 nvidia.com/gpu + 1 pod x 2 cpu in one rack; z/b/r holds 3 of 4 (16 of 24 nvidia.com/gpu free)"},
		"the part that does not fit": {levels: ls, nodes: []string{"a z/b/r1 8", "b z/b/r2 8", "c z/b/r2 8"},
			group: group("g", 0, none, nil, group("one", 2, none, pods("o", 2, gpus(8))), group("two", 2, none, pods("t", 1, gpus(8))),
				group("three", 2, none, pods("h", 1, gpus(8)))),
			wantWhy: "needs 4 pods x 8 nvidia.com/gpu in one zone; z holds 3 of 4; there two " +
				"needs 1 pod x 8 nvidia.com/gpu in one rack inside z; z/b/r1 holds 0 of 1 (1 host short of nvidia.com/gpu); 1 other rack holds no more"},
		"an anchor": {levels: ls, nodes: []string{"a z/b/r1 8 used=8"},
			group:   &Group{Required: 2, Preferred: none, Within: topology.Path{"z", "b", "r1"}, Pods: pods("p", 1, gpus(8))},
			wantWhy: "needs 1 pod x 8 nvidia.com/gpu in z/b/r1; it holds 0 of 1 (1 host short of nvidia.com/gpu)"},
		"an anchor without nodes": {levels: ls, nodes: []string{"a z/b/r1 8"},
			group:   &Group{Required: 2, Preferred: none, Within: topology.Path{"z", "b", "r9"}, Pods: pods("p", 1, gpus(8))},
			wantWhy: "z/b/r9, where living members of the graph are pinned, has no nodes any more; the graph is free to move once all of them are gone"},
		"no labels": {levels: ls, nodes: []string{"a - 8"}, group: group("g", 1, none, pods("p", 1, gpus(8))),
			wantWhy: "needs 1 pod x 8 nvidia.com/gpu in one block; no node carries the labels of level block"},
		"long names are shortened in the middle": {levels: ls, nodes: []string{"a " + long + "/" + long + "/" + long + " 1"},
			group: group("g", 2, none, pods("p", 2, gpus(1))),
			wantWhy: "needs 2 pods x 1 nvidia.com/gpu in one rack; " + strings.Repeat("é", 31) + "/" + strings.Repeat("é", 7) + "..." +
				strings.Repeat("é", 8) + "/" + strings.Repeat("é", 31) + " holds 1 of 2 (1 of 2 nvidia.com/gpu free)"},
	}
	runGroupCases(t, cases)
}

// TestBudget: the search says so when it stops without an answer, and finds the packing with a larger budget.
func TestBudget(t *testing.T) {
	ls := levels("rack")
	// Largest first fills one host with 4+4 and has no room for the last 3; only going back on the hosts finds 4+3+3 twice.
	c := clusterOf(ls, "a r 10", "b r 10")
	g := &Group{Name: "g", Required: 0, Preferred: none, Pods: append(pods("f", 2, gpus(4)), pods("t", 4, gpus(3))...)}
	_, why := PlanGroup(c, ls, nil, g, Options{Budget: 4})
	if why == nil || why.Code != CodeBudgetExhausted {
		t.Fatalf("four steps: %+v", why)
	}
	want := "needs 2 pods x 4 nvidia.com/gpu + 4 pods x 3 nvidia.com/gpu in one rack; " +
		"the search stopped after 4 steps without an answer; r holds 5 of 6"
	if diff := cmp.Diff(want, why.Message()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if _, why := PlanGroup(c, ls, nil, g, Options{}); why != nil {
		t.Errorf("default budget: %s", why.Message())
	}
}
