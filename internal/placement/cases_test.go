// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// groupCase is one group on one cluster: the nodes its pods go to, or the message of the refusal.
type groupCase struct {
	levels  topology.Levels
	nodes   []string
	group   *Group
	want    []string
	wantWhy string
}

func group(name string, required, preferred int, p []Pod, groups ...*Group) *Group {
	return &Group{Name: name, Required: required, Preferred: preferred, Pods: p, Groups: groups}
}

func runGroupCases(t *testing.T, cases map[string]groupCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(tc.levels, tc.nodes...)
			r, why := PlanGroup(c, tc.levels, nil, tc.group, Options{})
			if tc.wantWhy != "" {
				if why == nil {
					t.Fatalf("placed on %v, want refused", nodesOf(r))
				}
				if diff := cmp.Diff(tc.wantWhy, why.Message()); diff != "" {
					t.Errorf("message (-want +got):\n%s", diff)
				}
				return
			}
			if why != nil {
				t.Fatalf("refused: %s", why.Message())
			}
			if diff := cmp.Diff(tc.want, nodesOf(r)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDomainChoice: what a careful planner answers on a small cluster of two zones.
func TestDomainChoice(t *testing.T) {
	// Capacity for pods of one GPU: b1/r1 1, b1/r2 1+1+1, b2/r1 1, b2/r2 2.
	ls := levels("block", "rack")
	d := []string{"x1 b1/r2 1", "x2 b2/r1 1", "x3 b1/r1 1", "x4 b2/r2 2", "x5 b1/r2 1", "x6 b1/r2 1"}
	one := func(n int) []Pod { return pods("p", n, gpus(1)) }
	runGroupCases(t, map[string]groupCase{
		"two pods take the rack with exactly two": {levels: ls, nodes: d,
			group: group("g", 1, none, one(2)), want: []string{"x4", "x4"}},
		"three pods take the rack with three": {levels: ls, nodes: d,
			group: group("g", 1, none, one(3)), want: []string{"x1", "x5", "x6"}},
		"four pods in a rack are one too many": {levels: ls, nodes: d, group: group("g", 1, none, one(4)),
			wantWhy: "needs 4 pods x 1 nvidia.com/gpu in one rack; b1/r2 holds 3 of 4 (3 of 4 nvidia.com/gpu free); 3 other racks hold fewer"},
		"five pods in a block are one too many": {levels: ls, nodes: d, group: group("g", 0, none, one(5)),
			wantWhy: "needs 5 pods x 1 nvidia.com/gpu in one block; b1 holds 4 of 5 (4 of 5 nvidia.com/gpu free); 1 other block holds fewer"},
		"one rack of four hosts beats two racks of two": {levels: ls,
			nodes: []string{"x1 b/r3 1", "x2 b/r3 1", "x3 b/r1 2", "x4 b/r3 1", "x5 b/r2 2", "x6 b/r3 1"},
			group: group("g", 0, none, one(4)), want: []string{"x1", "x2", "x4", "x6"}},
		"a block is filled over its racks": {levels: ls, nodes: d,
			group: group("g", 0, none, one(4)), want: []string{"x1", "x3", "x5", "x6"}},
		"a preferred rack climbs to the block": {levels: ls, nodes: d,
			group: group("g", none, 1, one(4)), want: []string{"x1", "x3", "x5", "x6"}},
		"a preferred rack climbs to the cluster": {levels: ls, nodes: d,
			group: group("g", none, 1, one(6)), want: []string{"x1", "x3", "x4", "x4", "x5", "x6"}},
		"preferred does not help when the cluster is too small": {levels: ls, nodes: d, group: group("g", none, 1, one(10)),
			wantWhy: "needs 10 pods x 1 nvidia.com/gpu in the cluster; it holds 7 of 10 (7 of 10 nvidia.com/gpu free)"},
		"two gangs of two in racks of one block": {levels: ls,
			nodes: []string{"a1 b1/r1 1", "a2 b1/r1 1", "b1 b1/r2 1", "b2 b1/r2 1", "b3 b1/r2 1", "c1 b2/r1 1", "c2 b2/r1 1"},
			group: group("g", 0, none, nil, group("one", 1, none, pods("o", 2, gpus(1))), group("two", 1, none, pods("t", 2, gpus(1)))),
			want:  []string{"a1", "a2", "b1", "b2"}},
		"the larger sibling chooses first": {levels: ls,
			nodes: []string{"a1 b1/r1 2", "b1 b1/r2 3"},
			group: group("g", 0, none, nil, group("early", 1, none, pods("e", 2, gpus(1))), group("late", 1, none, pods("l", 3, gpus(1)))),
			want:  []string{"a1", "a1", "b1", "b1", "b1"}},
		"one rack name in two zones is two racks": {levels: ls, nodes: []string{"a1 b1/rack 2", "c1 b2/rack 2"}, group: group("g", 1, none, one(4)),
			wantWhy: "needs 4 pods x 1 nvidia.com/gpu in one rack; b1/rack holds 2 of 4 (2 of 4 nvidia.com/gpu free); 1 other rack holds no more"},
	})
}

// TestElasticCases: gangs whose pods spread over the hosts of a domain, or over several domains.
func TestElasticCases(t *testing.T) {
	rack, rackSpine, zoneRack := levels("rack"), levels("rack", "spine"), levels("zone", "rack")
	zoneSpine := levels("zone", "spine", "rack")
	admit := podOf(map[string]string{gpu: "1"})
	admit.Spec.NodeSelector = map[string]string{"pool": "b"}
	replica := func(name string, required, preferred, leaf int, n, size int) *Group {
		return group(name, required, preferred, nil,
			group(name+"-a", leaf, none, pods(name+"a", n, gpus(size))), group(name+"-b", leaf, none, pods(name+"b", n, gpus(size))))
	}
	twoZones := []string{"n0 z1/s1/r1 1 used=1", "n1 z1/s1/r2 1", "n2 z1/s2/r3 1", "n3 z1/s2/r4 1",
		"n4 z2/s3/r5 1", "n5 z2/s3/r6 1", "n6 z2/s4/r7 1", "n7 z2/s4/r8 1"}
	fours := []string{"n0 z1/r1 4 used=1", "n1 z1/r2 4", "n2 z2/r3 4", "n3 z2/r4 4"}
	runGroupCases(t, map[string]groupCase{
		"K1 the rack with a busy host is passed over": {levels: rack, nodes: []string{"n0 r1 1 used=1", "n1 r1 1", "n2 r2 1", "n3 r2 1"},
			group: group("j", 0, none, pods("p", 2, gpus(1))), want: []string{"n2", "n3"}},
		"K2 the pods' node selector decides on the rack": {levels: rack,
			nodes: []string{"n0 r1 1", "n1 r1 1", "n2 r2 1 label=pool=b", "n3 r2 1 label=pool=b"},
			group: group("j", 0, none, pods("p", 2, topology.ShapeOf(admit))), want: []string{"n2", "n3"}},
		"K3 the spine with capacity for both": {levels: rackSpine, nodes: []string{"n0 r1/s1 2 used=1", "n1 r1/s2 2"},
			group: group("j", 1, none, pods("p", 2, gpus(1))), want: []string{"n1", "n1"}},
		"K4 four pods fill the free rack": {levels: rack, nodes: []string{"n0 r1 2 used=1", "n1 r1 2", "n2 r2 2", "n3 r2 2"},
			group: group("j", 0, none, pods("p", 4, gpus(1))), want: []string{"n2", "n2", "n3", "n3"}},
		"K5 one rack, half of one host used: tight hosts first": {levels: rack, nodes: []string{"n0 r1 2 used=1", "n1 r1 1"},
			group: group("j", 0, none, pods("p", 2, gpus(1))), want: []string{"n0", "n1"}},
		"K6 three of four in either rack": {levels: rack, nodes: []string{"n0 r1 2 used=1", "n1 r1 2", "n2 r2 2 used=1", "n3 r2 2"},
			group:   group("j", 0, none, pods("p", 4, gpus(1))),
			wantWhy: "needs 4 pods x 1 nvidia.com/gpu in one rack; r1 holds 3 of 4 (3 of 4 nvidia.com/gpu free); 1 other rack holds no more"},
		"K7 preferred: the rack that holds both": {levels: rack, nodes: []string{"n0 r1 2 used=1", "n1 r2 2"},
			group: group("j", none, 0, pods("p", 2, gpus(1))), want: []string{"n1", "n1"}},
		"K8 preferred: split when no rack holds both": {levels: rack, nodes: []string{"n0 r1 1", "n1 r2 1"},
			group: group("j", none, 0, pods("p", 2, gpus(1))), want: []string{"n0", "n1"}},
		"K9 required rack, the preferred spine gives way": {levels: rackSpine, nodes: []string{"n0 r1/s1 1", "n2 r2/s1 1", "n3 r2/s2 1"},
			group: group("j", 0, 1, pods("p", 2, gpus(1))), want: []string{"n2", "n3"}},
		"K10 both parts in racks of one zone": {levels: zoneRack, nodes: []string{"n0 z1/r1 2 used=2", "n1 z1/r2 2", "n2 z2/r3 2", "n3 z2/r4 2"},
			group: replica("j", 0, none, 1, 1, 2), want: []string{"n2", "n3"}},
		"K11 replicas by spine, leaves by rack, all in one zone": {levels: zoneSpine, nodes: twoZones,
			group: group("j", 0, none, nil, replica("r1", 1, none, 2, 1, 1), replica("r2", 1, none, 2, 1, 1)),
			want:  []string{"n4", "n5", "n6", "n7"}},
		"K12 the tighter rack": {levels: rack, nodes: []string{"n0 r1 10", "n1 r2 10 used=1"},
			group: group("j", 0, none, pods("p", 2, gpus(1))), want: []string{"n1", "n1"}},
		"K13 preferred zone holds all, preferred racks too": {levels: zoneRack, nodes: fours,
			group: group("j", none, 0, nil, group("r1", none, 1, pods("a", 2, gpus(2))), group("r2", none, 1, pods("b", 2, gpus(2)))),
			want:  []string{"n2", "n2", "n3", "n3"}},
		"K14 the same with required racks": {levels: zoneRack, nodes: fours,
			group: group("j", none, 0, nil, group("r1", 1, none, pods("a", 2, gpus(2))), group("r2", 1, none, pods("b", 2, gpus(2)))),
			want:  []string{"n2", "n2", "n3", "n3"}},
		"K15 preferred zone, required spines, loose leaves": {levels: zoneSpine, nodes: twoZones,
			group: group("j", none, 0, nil, replica("r1", 1, none, none, 1, 1), replica("r2", 1, none, none, 1, 1)),
			want:  []string{"n4", "n5", "n6", "n7"}},
	})
}

// graphCase is one graph on the cluster of the Grove end-to-end tests, shrunk: 1 zone, 2 blocks, 2 racks each, 4 hosts of 3 slots each.
type graphCase struct {
	graph Demand
	// inOne is, per level of the whole graph, component or replica, what must be one domain.
	check func(t *testing.T, r Result)
}

var fourLevels = levels("zone", "block", "rack", "host")

const (
	zone = iota
	block
	rack
	host
)

func groveCluster() *topology.Cluster {
	c := topology.NewCluster()
	for i := range 16 {
		n := strconv.Itoa(i)
		c.SetNode(nodeOf(fourLevels, "n"+n+" z/b"+strconv.Itoa(i/8)+"/r"+strconv.Itoa(i/4)+"/n"+n+" 3"))
	}
	return c
}

// together fails unless the replicas of the named components (all when none) sit in one domain of the level.
func together(t *testing.T, r Result, level int, components ...string) {
	t.Helper()
	var at topology.Path
	for _, one := range r.Replicas {
		if len(components) > 0 && !slices.Contains(components, one.Component) {
			continue
		}
		for _, p := range one.Pods {
			n, _ := strconv.Atoi(p.Node[1:])
			path := topology.Path{"z", "b" + strconv.Itoa(n/8), "r" + strconv.Itoa(n/4), p.Node}.Truncate(level)
			if at == nil {
				at = path
			}
			if !at.Equal(path) {
				t.Errorf("%s-%d has a pod in %s, others in %s", one.Component, one.Ordinal, path, at)
			}
		}
	}
}

// eachTogether fails unless every replica of a component sits in one domain of the level.
func eachTogether(t *testing.T, r Result, level int, component string) {
	t.Helper()
	for _, one := range r.Replicas {
		if one.Component == component {
			together(t, Result{Replicas: []ReplicaResult{one}}, level)
		}
	}
}

// TestGraphCases: several gangs of one graph, placed one after another.
func TestGraphCases(t *testing.T) {
	exclusive := onePerHost()
	cases := map[string]graphCase{
		"TAS2 one service by rack, one by block on hosts of their own": {
			graph: Demand{Required: none, Components: []Component{
				componentOf("rack", rack, none, 1, 3, gpus(1)), componentOf("block", block, none, 1, 4, exclusive)}},
			check: func(t *testing.T, r Result) {
				together(t, r, rack, "rack")
				together(t, r, block, "block")
				if nodes := nodesUsed(r, "block"); len(nodes) != 4 {
					t.Errorf("four pods, one per host, on %v", nodes)
				}
			}},
		"TAS3 the whole graph in one rack": {
			graph: Demand{Required: rack, Preferred: none, Components: []Component{
				componentOf("worker", none, none, 2, 1, gpus(1)), componentOf("router", none, none, 2, 1, gpus(1))}},
			check: func(t *testing.T, r Result) { together(t, r, rack) }},
		"TAS4 each replica in a rack, the router anywhere": {
			graph: Demand{Required: none, Preferred: none, Components: []Component{
				componentOf("worker", rack, none, 2, 9, gpus(1)), componentOf("router", none, none, 2, 1, gpus(1))}},
			check: func(t *testing.T, r Result) { eachTogether(t, r, rack, "worker") }},
		"TAS5 two pods on one host": {
			graph: Demand{Required: none, Preferred: none, Components: []Component{componentOf("worker", host, none, 1, 2, gpus(1))}},
			check: func(t *testing.T, r Result) { together(t, r, host) }},
		"TAS6 the whole graph in one zone": {
			graph: Demand{Required: zone, Preferred: none, Components: []Component{componentOf("worker", none, none, 4, 1, gpus(3))}},
			check: func(t *testing.T, r Result) { together(t, r, zone) }},
		"TAS7 no constraint": {
			graph: Demand{Required: none, Preferred: none, Components: []Component{componentOf("worker", none, none, 1, 4, gpus(3))}},
			check: func(*testing.T, Result) {}},
		"TAS9 graph by block, service by host": {
			graph: Demand{Required: block, Preferred: none, Components: []Component{
				componentOf("worker", host, none, 1, 2, gpus(1)), componentOf("other", none, none, 1, 2, gpus(3))}},
			check: func(t *testing.T, r Result) { together(t, r, block); together(t, r, host, "worker") }},
		"TAS14 two graphs of a rack each do not disturb each other": {
			graph: Demand{Required: rack, Preferred: none, Components: []Component{componentOf("worker", none, none, 1, 2, gpus(3))}},
			check: func(t *testing.T, r Result) { together(t, r, rack) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := groveCluster()
			tc.graph.Levels = fourLevels
			r := PlanGraph(c, tc.graph, Options{})
			if !r.Placed() {
				t.Fatalf("refused: %v", summary(r))
			}
			tc.check(t, r)
		})
	}
}

// TestNestedCases covers TAS8 and TAS11, whose constraints nest deeper than a graph's.
func TestNestedCases(t *testing.T) {
	nodes := make([]string, 0, 16)
	for i := range 16 {
		n := strconv.Itoa(i)
		nodes = append(nodes, "n"+n+" z/b"+strconv.Itoa(i/8)+"/r"+strconv.Itoa(i/4)+"/n"+n+" 3")
	}
	replica := func(name string) *Group {
		return group(name, rack, none, nil,
			group(name+"-prefill", host, none, pods(name+"p", 2, gpus(1))), group(name+"-decode", host, none, pods(name+"d", 2, gpus(1))))
	}
	runGroupCases(t, map[string]groupCase{
		"TAS8 block, replicas by rack, cliques by host": {levels: fourLevels, nodes: nodes,
			group: group("g", block, none, nil, replica("one"), replica("two")),
			want:  []string{"n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3"}},
		"TAS11 replicas by rack, workers by host": {levels: fourLevels, nodes: nodes,
			group: group("g", none, none, nil,
				group("one", rack, none, nil, group("one-worker", host, none, pods("a", 2, gpus(1)))),
				group("two", rack, none, nil, group("two-worker", host, none, pods("b", 2, gpus(1))))),
			want: []string{"n0", "n0", "n1", "n1"}},
		"TAS13 ten pods of a whole host do not fit a rack of four": {levels: fourLevels, nodes: nodes,
			group:   group("g", rack, none, pods("p", 10, gpus(3))),
			wantWhy: "needs 10 pods x 3 nvidia.com/gpu in one rack; z/b0/r0 holds 4 of 10 (12 of 30 nvidia.com/gpu free); 3 other racks hold no more"},
	})
}

// nodesUsed lists the distinct nodes of a component.
func nodesUsed(r Result, component string) []string {
	var nodes []string
	for _, one := range r.Replicas {
		for _, p := range one.Pods {
			if one.Component == component && !slices.Contains(nodes, p.Node) {
				nodes = append(nodes, p.Node)
			}
		}
	}
	return nodes
}
