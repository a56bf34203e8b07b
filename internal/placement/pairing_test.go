// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// inRoles sets the roles of components named after them, and the pairing of a graph by a level.
func inRoles(g *Demand, level int, required bool) {
	g.Pairing = &Pairing{Level: level, Required: required}
	for i := range g.Components {
		s := &g.Components[i]
		switch s.Name[0] {
		case 'p':
			s.Role = Prefill
			g.Pairing.Prefill += len(s.Waiting) + s.Placed
		case 'd':
			s.Role = Decode
			g.Pairing.Decode += len(s.Waiting) + s.Placed
		}
	}
}

// sharesOf are how many decode replicas have prefill in their domain of the level, and the reverse.
func sharesOf(r *Result, level int) (decode, prefill int) {
	at := map[string][2]int{}
	for _, one := range r.Replicas {
		if one.Refusal == nil && len(one.Domain) > level {
			role := 0
			if one.Component[0] == 'd' {
				role = 1
			}
			n := at[one.Domain.Truncate(level).String()]
			n[role]++
			at[one.Domain.Truncate(level).String()] = n
		}
	}
	for _, n := range at {
		if n[0] > 0 {
			decode += n[1]
		}
		if n[1] > 0 {
			prefill += n[0]
		}
	}
	return decode, prefill
}

// racksOf is racks of one zone, of hosts with 8 GPUs.
func racksOf(racks, hosts int) []string { return racksIn("z/", racks, hosts) }

// racksIn is racks below a path, of hosts with 8 GPUs.
func racksIn(path string, racks, hosts int) []string {
	var nodes []string
	for r := range racks {
		for h := range hosts {
			nodes = append(nodes, fmt.Sprintf("n%02d-%02d %sr%02d 8", r, h, path, r))
		}
	}
	return nodes
}

func TestPairing(t *testing.T) {
	ls := levels("zone", "rack")
	for _, c := range []struct {
		name                   string
		racks, hosts           int
		prefill, decode        Component
		wantDecode, wantPaired int
		each                   [2]int
	}{
		{
			name: "half a rack each", racks: 10, hosts: 4, prefill: componentOf("prefill", 1, none, 5, 2, gpus(8)),
			decode: componentOf("decode", 1, none, 5, 2, gpus(8)), wantDecode: 5, wantPaired: 5, each: [2]int{1, 1},
		},
		{
			name: "two decode alongside each prefill", racks: 4, hosts: 6, prefill: componentOf("prefill", 1, none, 2, 2, gpus(8)),
			decode: componentOf("decode", 1, none, 4, 2, gpus(8)), wantDecode: 4, wantPaired: 2, each: [2]int{1, 2},
		},
		{
			name: "single-node", racks: 4, hosts: 4, prefill: componentOf("prefill", none, none, 4, 1, gpus(8)),
			decode: componentOf("decode", none, none, 12, 1, gpus(8)), wantDecode: 12, wantPaired: 4, each: [2]int{1, 3},
		},
	} {
		for _, required := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, required %v", c.name, required), func(t *testing.T) {
				g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{c.prefill, c.decode}}
				inRoles(&g, 1, required)
				r := PlanGraph(clusterOf(ls, racksOf(c.racks, c.hosts)...), g, Options{})
				decode, prefill := sharesOf(&r, 1)
				if !r.Placed() || decode != c.wantDecode || prefill != c.wantPaired {
					t.Fatalf("%d decode and %d prefill replicas have a partner, want %d and %d:\n%v", decode, prefill, c.wantDecode, c.wantPaired,
						summary(r))
				}
				p := &planner{tree: clusterOf(ls, racksOf(c.racks, c.hosts)...).Tree(ls, nil), pairing: g.Pairing}
				counts := pairs{}
				for _, one := range r.Replicas {
					role := Prefill
					if one.Component == "decode" {
						role = Decode
					}
					counts.add(p, Paired{Role: role, Domain: one.Domain})
				}
				for at, n := range counts {
					if n != c.each {
						t.Errorf("%s has %v replicas of the roles, want %v", p.tree.Path(at.domain), n, c.each)
					}
				}
			})
		}
	}
}

// TestPairingRequired: without a partner no domain is opened, and domains in use take more.
func TestPairingRequired(t *testing.T) {
	ls := levels("rack")
	graph := func(prefill, decode int, at ...Paired) Demand {
		g := Demand{Levels: ls, Required: none, Preferred: none}
		if prefill > 0 {
			g.Components = append(g.Components, componentOf("prefill", none, none, prefill, 1, gpus(8)))
		}
		if decode > 0 {
			g.Components = append(g.Components, componentOf("decode", none, none, decode, 1, gpus(8)))
		}
		inRoles(&g, 0, true)
		for _, one := range at {
			if one.Role == Prefill {
				g.Pairing.Prefill++
			} else {
				g.Pairing.Decode++
			}
		}
		g.Pairing.At = at
		return g
	}
	r1 := func(role Role) Paired { return Paired{Role: role, Domain: topology.Path{"r1"}} }
	other := r1(Decode)
	other.Generation = "old"
	for _, c := range []struct {
		name  string
		graph Demand
		nodes []string
		want  []string
		why   string
	}{
		{name: "a pair opens a rack", graph: graph(1, 1), nodes: []string{"a r1 8", "b r2 8", "c r2 8"},
			want: []string{"decode-0 r2: b", "prefill-0 r2: c"}},
		{name: "no rack holds a pair", graph: graph(1, 1), nodes: []string{"a r1 8", "b r2 8"},
			want: []string{"decode-0 NeverFits", "prefill-0 NeverFits"},
			why:  "no rack has 2 hosts: the largest has 1 (r1); needs 2 pods x 8 nvidia.com/gpu in one rack, prefill alongside decode"},
		{name: "no rack has room for a pair", graph: graph(1, 1), nodes: []string{"a r1 8", "b r1 8 used=8", "c r2 8"},
			want: []string{"decode-0 InsufficientCapacity", "prefill-0 InsufficientCapacity"},
			why: "needs 2 pods x 8 nvidia.com/gpu in one rack, prefill alongside decode; r1 holds 1 of 2; 1 other rack holds no more; " +
				"there prefill-0 needs 1 pod x 8 nvidia.com/gpu in r1; it holds 0 of 1 (2 hosts short of nvidia.com/gpu)"},
		{name: "one role goes where the other is", graph: graph(0, 1, r1(Prefill)), nodes: []string{"a r1 8", "b r2 8", "c r2 8"},
			want: []string{"decode-0 r1: a"}},
		{name: "one role opens no rack", graph: graph(0, 1, r1(Prefill)), nodes: []string{"a r1 8 used=8", "b r2 8"},
			want: []string{"decode-0 InsufficientCapacity"},
			why:  "needs 1 pod x 8 nvidia.com/gpu in one rack, prefill alongside decode; r1 holds 0 of 1 (1 host short of nvidia.com/gpu)"},
		{name: "a rack in use takes one role", graph: graph(1, 0, r1(Prefill), r1(Decode)), nodes: []string{"a r1 8", "b r2 8"},
			want: []string{"prefill-0 r1: a"}},
		{name: "partners are of one generation", graph: graph(1, 0, other), nodes: []string{"a r1 8"},
			want: []string{"prefill-0 NoPartner"},
			why:  "needs a decode replica in its rack; none is placed, and none is ready to be placed with it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := PlanGraph(clusterOf(ls, c.nodes...), c.graph, Options{})
			if diff := cmp.Diff(c.want, summary(r)); diff != "" {
				t.Errorf("placed:\n%s", diff)
			}
			if messages := refusals(r); c.why != "" && (len(messages) == 0 || messages[0] != c.why) {
				t.Errorf("messages %q,\nwant %q", messages, c.why)
			}
		})
	}
}

// TestPairingPreferredNeverWaits: a replica without space alongside a partner goes elsewhere.
func TestPairingPreferredNeverWaits(t *testing.T) {
	ls := levels("rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		componentOf("decode", none, none, 1, 1, gpus(8)), componentOf("prefill", none, none, 1, 2, gpus(8))}}
	inRoles(&g, 0, false)
	r := PlanGraph(clusterOf(ls, "a r1 8", "b r2 8", "c r3 8"), g, Options{})
	if diff := cmp.Diff([]string{"decode-0 r1: a", "prefill-0 : b c"}, summary(r)); diff != "" {
		t.Errorf("a replica over several racks:\n%s", diff)
	}
}

// TestPairingKeepsTheBaseGang: the base gang is placed whole, and the graph goes where the roles are balanced.
func TestPairingKeepsTheBaseGang(t *testing.T) {
	ls := levels("zone", "rack")
	for _, required := range []bool{false, true} {
		g := Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{
			componentOf("frontend", none, none, 1, 1, cpus(1)), componentOf("prefill", 1, none, 2, 2, gpus(8)),
			componentOf("decode", 1, none, 2, 2, gpus(8))}}
		inRoles(&g, 1, required)
		nodes := []string{
			"a1 a/r1 8", "a2 a/r1 8", "a3 a/r2 8", "a4 a/r2 8", "a5 a/r3 8", "a6 a/r3 8", "a7 a/r4 8", "a8 a/r4 8",
			"b1 b/r1 8", "b2 b/r1 8", "b3 b/r1 8", "b4 b/r1 8", "b5 b/r2 8", "b6 b/r2 8", "b7 b/r2 8", "b8 b/r2 8",
		}
		r := PlanGraph(clusterOf(ls, nodes...), g, Options{})
		if decode, prefill := sharesOf(&r, 1); r.Domain.String() != "b" || decode != 2 || prefill != 2 {
			t.Errorf("required %v: in %q with %d and %d paired, want zone b with 2 and 2:\n%v", required, r.Domain, decode, prefill, summary(r))
		}
		for _, one := range r.Replicas {
			if one.Base != (one.Ordinal == 0) {
				t.Errorf("required %v: %s-%d of the base gang: %v", required, one.Component, one.Ordinal, one.Base)
			}
		}
	}
}

// TestPairingPreempts: a pair takes the capacity of pods of lower priority together.
func TestPairingPreempts(t *testing.T) {
	ls := levels("rack")
	c := clusterOf(ls, "a r1 8", "b r1 8", "c r2 8 used=8")
	for _, node := range []string{"a", "b"} {
		low := podOf(map[string]string{gpu: "8"})
		priority := int32(-10)
		low.Name, low.Spec.NodeName, low.Spec.Priority = "low-"+node, node, &priority
		c.SetPod(low)
	}
	g := Demand{Levels: ls, Required: none, Preferred: none, Preempts: true, Components: []Component{
		componentOf("prefill", none, none, 1, 1, gpus(8)), componentOf("decode", none, none, 1, 1, gpus(8))}}
	inRoles(&g, 0, true)
	r := PlanGraph(c, g, Options{})
	if diff := cmp.Diff([]string{"decode-0 r1: a", "prefill-0 r1: b"}, summary(r)); diff != "" {
		t.Errorf("placed:\n%s", diff)
	}
	if r.Replicas[0].Preempts == nil || r.Replicas[0].Preempts.Pods != 2 {
		t.Errorf("preempts %+v, want 2 pods", r.Replicas[0].Preempts)
	}
}
