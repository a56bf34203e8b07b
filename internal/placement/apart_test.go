// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// apartGroup is a group of which no two pods share a host.
func apartGroup(name string, required int, own []Pod) *Group {
	g := group(name, required, none, own)
	g.Apart = true
	return g
}

func TestApartCases(t *testing.T) {
	ls := levels("block", "rack")
	one := func(n int) []Pod { return pods("p", n, gpus(1)) }
	runGroupCases(t, map[string]groupCase{
		"a large host is one host": {levels: ls, nodes: []string{"x1 b/r1 8", "x2 b/r2 4", "x3 b/r2 4"},
			group: apartGroup("g", 1, one(2)), want: []string{"x2", "x3"}},
		"the rack with the fewest hosts that do": {levels: ls, nodes: []string{"x1 b/r1 8", "x2 b/r1 8", "x3 b/r1 8", "x4 b/r2 8", "x5 b/r2 8"},
			group: apartGroup("g", 1, one(2)), want: []string{"x4", "x5"}},
		"over racks of a block": {levels: ls, nodes: []string{"x1 b/r1 8", "x2 b/r1 8", "x3 b/r1 8", "x4 b/r2 8", "x5 b/r2 8"},
			group: apartGroup("g", 0, one(4)), want: []string{"x1", "x2", "x3", "x4"}},
		"groups share hosts": {levels: ls, nodes: []string{"x1 b/r1 2", "x2 b/r1 2"},
			group: group("g", 1, none, nil, apartGroup("one", none, pods("o", 2, gpus(1))), apartGroup("two", none, pods("t", 2, gpus(1)))),
			want:  []string{"x1", "x1", "x2", "x2"}},
		"pods of two shapes": {levels: ls, nodes: []string{"x1 b/r1 4", "x2 b/r1 4", "x3 b/r1 4"},
			group: apartGroup("g", 1, append(pods("l", 1, gpus(1)), pods("w", 2, gpus(3))...)), want: []string{"x1", "x2", "x3"}},
		"one host is too few": {levels: ls, nodes: []string{"x1 b/r1 8", "x2 b/r1 8", "x3 b/r2 8"}, group: apartGroup("g", 1, one(3)),
			wantWhy: "needs 3 pods x 1 nvidia.com/gpu on hosts of their own in one rack; b/r1 holds 2 of 3; 1 other rack holds fewer"},
		"a cordoned host does not count": {levels: ls, nodes: []string{"x1 b/r1 8", "x2 b/r1 8 cordoned"}, group: apartGroup("g", 1, one(2)),
			wantWhy: "needs 2 pods x 1 nvidia.com/gpu on hosts of their own in one rack; b/r1 holds 1 of 2 (1 host cordoned)"},
	})
}

// apartComponent has replicas whose pods are apart.
func apartComponent(required, replicas, n int, s *topology.Shape) Component {
	c := componentOf("decode", required, none, replicas, n, s)
	c.Apart = true
	return c
}

func TestApartReplicas(t *testing.T) {
	ls := levels("zone", "rack")
	rest := apartComponent(1, 1, 2, gpus(1))
	rest.Waiting[0].Anchor, rest.Waiting[0].On = topology.Path{"z", "r1"}, []string{"placed"}
	for name, test := range map[string]struct {
		graph Demand
		nodes []string
		want  []string
	}{
		"replicas share hosts": {
			graph: Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{apartComponent(1, 3, 2, gpus(2))}},
			nodes: []string{"n0 z/r1 4", "n1 z/r1 4"},
			want:  []string{"decode-0 z/r1: n0 n1", "decode-1 z/r1: n0 n1", "decode-2 InsufficientCapacity"},
		},
		"in the base gang, too": {
			graph: Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{func() Component {
				c := apartComponent(1, 2, 2, gpus(2))
				c.MinAvailable = 2
				return c
			}()}},
			nodes: []string{"n0 z/r1 4", "n1 z/r1 4"},
			want:  []string{"decode-0 z/r1: n0 n1", "decode-1 z/r1: n0 n1"},
		},
		"never on so few hosts": {
			graph: Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{apartComponent(1, 1, 3, gpus(1))}},
			nodes: []string{"n0 z/r1 8", "n1 z/r1 8"},
			want:  []string{"decode-0 NeverFits"},
		},
		"the rest keeps off the host of what is placed": {
			graph: Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{rest}},
			nodes: []string{"n0 z/r1 8", "n1 z/r1 8", "n2 z/r1 8"},
			want:  []string{"decode-0 z/r1: n1 n2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, test.nodes...)
			c.Assume("placed", "n0", gpus(1))
			c.SetNode(nodeOf(ls, test.nodes[0]))
			if !strings.HasPrefix(name, "the rest") {
				c.Forget("placed")
			}
			r := PlanGraph(c, test.graph, Options{})
			if diff := cmp.Diff(test.want, summary(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestApartNever: why a replica will never fit names the hosts.
func TestApartNever(t *testing.T) {
	ls := levels("zone", "rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{apartComponent(1, 1, 3, gpus(1))}}
	r := PlanGraph(clusterOf(ls, "n0 z/r1 8", "n1 z/r1 8"), g, Options{})
	want := "no rack has 3 hosts: the largest has 2 (z/r1); needs 3 pods x 1 nvidia.com/gpu on hosts of their own in one rack"
	if diff := cmp.Diff(want, r.Replicas[0].Refusal.Message()); diff != "" {
		t.Error(diff)
	}
}

// TestApartFoundExactlyWhenAPackingExists compares with the brute force, with some groups apart.
func TestApartFoundExactlyWhenAPackingExists(t *testing.T) {
	placed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		left := 8
		g := drawGroup(t, "g", none, 2, &left)
		drawApart(t, g)
		r, why := PlanGroup(w.cluster(inOrder(len(w.paths))), w.levels, nil, g, ample)
		if want := w.brute(g); (why == nil) != want {
			t.Fatalf("placed %v, a packing exists: %v", why == nil, want)
		}
		if why != nil {
			refused++
			return
		}
		placed++
		w.check(t, g, r)
	})
	t.Logf("placed %d, refused %d", placed, refused)
}

// drawApart chooses groups without groups of their own whose pods are apart.
func drawApart(t *rapid.T, g *Group) {
	g.Apart = len(g.Groups) == 0 && rapid.Bool().Draw(t, g.Name+" apart")
	for _, sub := range g.Groups {
		drawApart(t, sub)
	}
}
