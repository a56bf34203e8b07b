// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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
			name: "two decode beside each prefill", racks: 4, hosts: 6, prefill: componentOf("prefill", 1, none, 2, 2, gpus(8)),
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
			why:  "no rack has 2 hosts: the largest has 1 (r1); needs 2 pods x 8 nvidia.com/gpu in one rack, prefill beside decode"},
		{name: "no rack has room for a pair", graph: graph(1, 1), nodes: []string{"a r1 8", "b r1 8 used=8", "c r2 8"},
			want: []string{"decode-0 InsufficientCapacity", "prefill-0 InsufficientCapacity"},
			why: "needs 2 pods x 8 nvidia.com/gpu in one rack, prefill beside decode; r1 holds 1 of 2; 1 other rack holds no more; " +
				"there prefill-0 needs 1 pod x 8 nvidia.com/gpu in r1; it holds 0 of 1 (2 hosts short of nvidia.com/gpu)"},
		{name: "one role goes where the other is", graph: graph(0, 1, r1(Prefill)), nodes: []string{"a r1 8", "b r2 8", "c r2 8"},
			want: []string{"decode-0 r1: a"}},
		{name: "one role opens no rack", graph: graph(0, 1, r1(Prefill)), nodes: []string{"a r1 8 used=8", "b r2 8"},
			want: []string{"decode-0 InsufficientCapacity"},
			why:  "needs 1 pod x 8 nvidia.com/gpu in one rack, prefill beside decode; r1 holds 0 of 1 (1 host short of nvidia.com/gpu)"},
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

// TestPairingPreferredNeverWaits: what does not fit beside a partner goes elsewhere.
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

// drawRoles draws a small cluster with racks, and a graph of one to three components of the roles.
func drawRoles(t *rapid.T) (world, Demand) {
	w := world{levels: levels("rack", "row")}
	for i := range rapid.IntRange(1, 8).Draw(t, "hosts") {
		path := topology.Path{fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("rack%d", i))),
			fmt.Sprintf("s%d", rapid.IntRange(0, 1).Draw(t, fmt.Sprintf("row%d", i)))}
		w.paths, w.cpu = append(w.paths, path), append(w.cpu, 9)
		w.gpu = append(w.gpu, rapid.IntRange(0, 4).Draw(t, fmt.Sprintf("gpu%d", i)))
	}
	g := Demand{Levels: w.levels, Required: none, Preferred: none}
	names := rapid.SampledFrom([][]string{{"prefill"}, {"prefill", "decode"}, {"prefill", "decode"}, {"prefill", "decode", "decode-b"},
		{"prefill", "decode", "prefill-b"}}).Draw(t, "components")
	left := 6
	for _, name := range names {
		replicas := min(rapid.IntRange(0, 3).Draw(t, name+" replicas"), left)
		left -= replicas
		n := rapid.IntRange(1, 2).Draw(t, name+" pods")
		required := rapid.IntRange(0, 1).Draw(t, name+" required")
		if n == 1 && rapid.IntRange(0, 2).Draw(t, name+" free") > 0 {
			required = none
		}
		g.Components = append(g.Components, componentOf(name, required, none, replicas, n,
			need{rapid.IntRange(1, 3).Draw(t, name+" gpu"), 0}.shape()))
	}
	at := rapid.IntRange(0, 2).Draw(t, "placed")
	for i := range at {
		role := Prefill + Role(rapid.IntRange(0, 1).Draw(t, fmt.Sprintf("role%d", i)))
		of := slices.IndexFunc(g.Components, func(s Component) bool { return s.Name[0] == role.String()[0] })
		if of < 0 || g.Components[of].Required != none && !g.Components[of].Multinode {
			continue
		}
		g.Components[of].Placed++
		defer func(one Paired) { g.Pairing.At = append(g.Pairing.At, one) }(Paired{Role: role, Domain: topology.Path{
			fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("at%d", i))), "s0"}})
	}
	inRoles(&g, 0, rapid.Bool().Draw(t, "enforced"))
	return w, g
}

// TestLeastImbalance: of the plans that place as many replicas as can be under all constraints, the planner's has the least imbalance.
func TestLeastImbalance(t *testing.T) {
	paired := 0
	rapid.Check(t, func(t *rapid.T) {
		w, g := drawRoles(t)
		r := PlanGraph(w.cluster(inOrder(len(w.paths))), g, Options{Budget: 20_000_000, PlanBudget: 1 << 40})
		w.checkGraph(t, &g, &r)
		if g.Pairing.Prefill == 0 || g.Pairing.Decode == 0 {
			return
		}
		got := bruteRoles{w: &w, g: &g}.valueOf(t, &r)
		best := (&bruteRoles{w: &w, g: &g, fits: map[string]bool{}}).best()
		if got != best {
			t.Fatalf("lacking, placed, imbalance: %v, the best plan has %v\n%v", got, best, summary(r))
		}
		if best[2] == 0 && best[1] > 1 {
			paired++
		}
	})
	t.Logf("%d plans without imbalance", paired)
}

// bruteRoles tries every rack for every replica.
type bruteRoles struct {
	w    *world
	g    *Demand
	fits map[string]bool
}

// placed is one waiting replica, and its rack; -1 for none.
type placed struct {
	component, replica, rack int
}

// value is the number of placed replicas that components lack, that of all placed ones, and the imbalance, negated.
type value [3]int

func (v value) less(o value) bool { return slices.Compare(v[:], o[:]) < 0 }

func (b bruteRoles) value(list []placed) (value, bool) {
	var v value
	var counts, before [3][2]int
	for _, one := range b.g.Pairing.At {
		rack := int(one.Domain[0][1] - '0')
		counts[rack][one.Role-Prefill]++
		before[rack][one.Role-Prefill]++
	}
	for _, one := range list {
		if one.rack < 0 {
			continue
		}
		s := &b.g.Components[one.component]
		v[1]++
		if one.replica == 0 && s.Placed == 0 {
			v[0]++
		}
		counts[one.rack][s.Role-Prefill]++
	}
	known := map[string]bool{}
	for _, path := range b.w.paths {
		known[path[0]] = true
	}
	for rack, n := range counts {
		if !known[fmt.Sprintf("r%d", rack)] { // replicas that the cluster has no domain for
			v[2] -= b.g.Pairing.imbalance(n[0], 0) + b.g.Pairing.imbalance(0, n[1])
			continue
		}
		v[2] -= b.g.Pairing.imbalance(n[0], n[1])
		opened := before[rack] == [2]int{} && n != [2]int{}
		if b.g.Pairing.Required && opened && (n[0] == 0 || n[1] == 0) {
			return v, false
		}
	}
	return v, true
}

// valueOf is the value of an answer.
func (b bruteRoles) valueOf(t *rapid.T, r *Result) value {
	var list []placed
	for _, one := range r.Replicas {
		rack := -1
		if one.Refusal == nil && len(one.Domain) == 0 {
			t.Fatalf("%s-%d is in no rack: %v", one.Component, one.Ordinal, summary(*r))
		}
		if one.Refusal == nil {
			rack = int(one.Domain[0][1] - '0')
		}
		at := slices.IndexFunc(b.g.Components, func(s Component) bool { return s.Name == one.Component })
		list = append(list, placed{at, one.Ordinal, rack})
	}
	v, allowed := b.value(list)
	if !allowed {
		t.Fatalf("one role alone opened a rack: %v", summary(*r))
	}
	return v
}

// best is the best value of all plans.
func (b *bruteRoles) best() value {
	var all []placed
	for si, s := range b.g.Components {
		for ri := range s.Waiting {
			all = append(all, placed{si, ri, -1})
		}
	}
	best := value{-1}
	var try func(i int)
	try = func(i int) {
		if i == len(all) {
			if v, allowed := b.value(all); allowed && best.less(v) && b.holds(all) {
				best = v
			}
			return
		}
		for rack := -1; rack < 3; rack++ {
			all[i].rack = rack
			try(i + 1)
		}
	}
	try(0)
	return best
}

// holds reports whether each rack holds what goes there, and replicas that share a domain do.
func (b *bruteRoles) holds(list []placed) bool {
	for rack := range 3 {
		g := &Group{Required: none, Within: topology.Path{fmt.Sprintf("r%d", rack)}}
		units, key := map[int]*Group{}, fmt.Sprint(rack)
		for _, one := range list {
			s := &b.g.Components[one.component]
			shared := !s.Multinode && s.Required != none
			if shared && one.rack >= 0 && slices.ContainsFunc(list, func(o placed) bool {
				return o.component == one.component && o.rack >= 0 && o.rack != one.rack
			}) {
				return false
			}
			if one.rack != rack {
				continue
			}
			key += fmt.Sprint(" ", one.component)
			replica := &Group{Name: fmt.Sprint(one), Required: s.Required, Pods: s.Waiting[one.replica].Pods}
			if !shared {
				g.Groups = append(g.Groups, replica)
				continue
			}
			if units[one.component] == nil {
				units[one.component] = &Group{Name: s.Name, Required: s.Required}
				g.Groups = append(g.Groups, units[one.component])
			}
			replica.Required = none
			units[one.component].Groups = append(units[one.component].Groups, replica)
		}
		if len(g.Groups) == 0 {
			continue
		}
		if fits, known := b.fits[key]; known && fits {
			continue
		} else if known {
			return false
		}
		b.fits[key] = b.w.brute(g)
		if !b.fits[key] {
			return false
		}
	}
	return true
}
