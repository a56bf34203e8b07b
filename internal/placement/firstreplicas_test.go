// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestMinAvailable: the replicas that a component is not to run without are placed together or not at all.
func TestMinAvailable(t *testing.T) {
	ls := levels("zone", "rack")
	const zone, rack = 0, 1
	atLeast := func(n int, s Component) Component {
		s.MinAvailable = n
		return s
	}
	placedOf := func(n int, s Component) Component {
		s.Placed = n
		return s
	}
	// Two zones of two racks with two 8-GPU hosts each; of zone a one rack is full.
	half := []string{"a1 a/r1 8", "a2 a/r1 8", "a3 a/r2 8 used=8", "a4 a/r2 8 used=8", "b1 b/r1 8", "b2 b/r1 8", "b3 b/r2 8", "b4 b/r2 8"}
	cases := map[string]struct {
		nodes  []string
		graph  Demand
		want   []string
		domain string
	}{
		"the base gang has two replicas of one service": {nodes: half[:4],
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				atLeast(2, componentOf("decode", none, none, 3, 1, gpus(8))), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 InsufficientCapacity", "decode-1 InsufficientCapacity", "decode-2 BaseGangWaits", "prefill-0 InsufficientCapacity"}},
		"the base gang goes where all of it fits": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{
				atLeast(2, componentOf("decode", rack, none, 2, 2, gpus(8)))}},
			want: []string{"decode-0 b/r1: b1 b2", "decode-1 b/r2: b3 b4"}, domain: "b"},
		"more than there are replicas": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Components: []Component{atLeast(9, componentOf("decode", rack, none, 1, 2, gpus(8)))}},
			want:  []string{"decode-0 a/r1: a1 a2"}, domain: "a"},
		"without a graph domain a service begins with all it needs": {nodes: half[:4],
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				atLeast(2, componentOf("decode", rack, none, 3, 2, gpus(8))), componentOf("prefill", rack, none, 1, 2, gpus(8))}},
			want: []string{"decode-0 InsufficientCapacity", "decode-1 InsufficientCapacity", "decode-2 BaseGangWaits", "prefill-0 a/r1: a1 a2"}},
		"and goes on replica by replica": {nodes: half,
			graph: Demand{Required: none, Preferred: none, Components: []Component{atLeast(2, componentOf("decode", rack, none, 4, 2, gpus(8)))}},
			want:  []string{"decode-0 a/r1: a1 a2", "decode-1 b/r1: b1 b2", "decode-2 b/r2: b3 b4", "decode-3 InsufficientCapacity"}},
		"what a running service lost comes back one by one": {nodes: half[:4],
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				{Name: "decode", Multinode: true, Required: rack, Preferred: none, Placed: 1, MinAvailable: 3, Waiting: componentOf("decode", rack, none, 2, 2, gpus(8)).Waiting}}},
			want: []string{"decode-0 a/r1: a1 a2", "decode-1 InsufficientCapacity"}},
		"the rest of a release that was cut short": {nodes: half[:4],
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				{Name: "decode", Multinode: true, Required: rack, Preferred: none, MinAvailable: 2, Waiting: []Replica{
					{Ordinal: 0, Anchor: topology.Path{"a", "r1"}, Pods: pods("d0", 1, gpus(8))}, {Ordinal: 1, Pods: pods("d1", 2, gpus(8))}}}}},
			want: []string{"decode-0 a/r1: a1", "decode-1 InsufficientCapacity"}},
		"single-node replicas of a service in one rack": {nodes: []string{"a1 a/r1 1", "a2 a/r2 2", "a3 a/r3 1"},
			graph: Demand{Required: none, Preferred: none, Components: []Component{atLeast(3, componentOf("router", rack, none, 3, 1, gpus(1)))}},
			want:  []string{"router-0 NeverFits", "router-1 NeverFits", "router-2 NeverFits"}},
		"single-node replicas choose the rack for all that follow": {nodes: []string{"a1 a/r1 2", "a2 a/r2 4", "a3 a/r3 3"},
			graph: Demand{Required: none, Preferred: none, Components: []Component{atLeast(2, componentOf("router", rack, none, 3, 1, gpus(1)))}},
			want:  []string{"router-0 a/r3: a3", "router-1 a/r3: a3", "router-2 a/r3: a3"}},
		"in the graph's domain, beside running members": {nodes: half,
			graph: Demand{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Components: []Component{
				{Name: "decode", Placed: 1, Required: none, Preferred: none}, atLeast(2, componentOf("prefill", rack, none, 2, 2, gpus(8)))}},
			want: []string{"prefill-0 InsufficientCapacity", "prefill-1 InsufficientCapacity"}, domain: "a"},
		"what a component lacks to run comes before what others would like": {nodes: half[:3],
			graph: Demand{Required: zone, Preferred: none, Anchor: topology.Path{"a"}, Components: []Component{
				placedOf(1, componentOf("decode", none, none, 2, 1, gpus(8))), componentOf("prefill", none, none, 1, 1, gpus(8))}},
			want: []string{"decode-0 a: a2", "decode-1 InsufficientCapacity", "prefill-0 a: a1"}, domain: "a"},
		"also where it lacks one of several": {nodes: half[:3],
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				placedOf(1, componentOf("decode", none, none, 2, 1, gpus(8))),
				atLeast(2, placedOf(1, componentOf("prefill", none, none, 2, 1, gpus(8))))}},
			want: []string{"decode-0 : a2", "decode-1 InsufficientCapacity", "prefill-0 : a1", "prefill-1 InsufficientCapacity"}},
		"and the rest of a release that was cut short": {nodes: half[:2],
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				componentOf("decode", none, none, 2, 1, gpus(8)),
				{Name: "prefill", Multinode: true, Required: rack, Preferred: none, Placed: 1, Waiting: []Replica{
					{Ordinal: 0, Pods: pods("p0", 2, gpus(8))}, {Ordinal: 1, Anchor: topology.Path{"a", "r1"}, Pods: pods("p1", 1, gpus(8))}}}}},
			want: []string{"decode-0 : a1", "decode-1 InsufficientCapacity", "prefill-0 InsufficientCapacity", "prefill-1 a/r1: a2"}},
		"the graph's preferred rack": {nodes: half,
			graph: Demand{Required: none, Preferred: rack, Components: []Component{atLeast(2, componentOf("decode", none, none, 2, 1, gpus(8)))}},
			want:  []string{"decode-0 a/r1: a1", "decode-1 a/r1: a2"}},
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
		})
	}
}
