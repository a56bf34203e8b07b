// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// rackPath is the path of a rack: the first two are in one zone, the third is in another.
func rackPath(rack int) topology.Path {
	return topology.Path{[]string{"z0", "z0", "z1"}[rack], fmt.Sprintf("r%d", rack)}
}

// drawRoles draws a small cluster with racks, and a graph of one to three components of the roles.
func drawRoles(t *rapid.T) (world, Demand) {
	w := world{levels: levels("zone", "rack", "row")}
	for i := range rapid.IntRange(1, 8).Draw(t, "hosts") {
		path := append(rackPath(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("rack%d", i))),
			fmt.Sprintf("s%d", rapid.IntRange(0, 1).Draw(t, fmt.Sprintf("row%d", i))))
		w.paths, w.cpu = append(w.paths, path), append(w.cpu, 9)
		w.gpu = append(w.gpu, rapid.IntRange(0, 4).Draw(t, fmt.Sprintf("gpu%d", i)))
	}
	g := Demand{Levels: w.levels, Required: none, Preferred: none}
	if rapid.IntRange(0, 2).Draw(t, "packed") == 0 {
		g.Required = 0
	}
	names := rapid.SampledFrom([][]string{{"prefill"}, {"prefill", "decode"}, {"prefill", "decode"}, {"prefill", "decode", "decode-b"},
		{"prefill", "decode", "prefill-b"}}).Draw(t, "components")
	left := 6
	for _, name := range names {
		replicas := min(rapid.IntRange(0, 3).Draw(t, name+" replicas"), left)
		left -= replicas
		n := rapid.IntRange(1, 2).Draw(t, name+" pods")
		required := rapid.IntRange(1, 2).Draw(t, name+" required")
		if n == 1 && rapid.IntRange(0, 2).Draw(t, name+" free") > 0 {
			required = none
		}
		g.Components = append(g.Components, componentOf(name, required, none, replicas, n,
			need{rapid.IntRange(1, 3).Draw(t, name+" gpu"), 0}.shape()))
		s := &g.Components[len(g.Components)-1]
		s.MinAvailable = rapid.IntRange(1, 2).Draw(t, name+" available")
		for ri := range s.Waiting {
			s.Waiting[ri].Generation = rapid.SampledFrom([]string{"", "", "new"}).Draw(t, fmt.Sprintf("%s-%d generation", name, ri))
		}
	}
	if g.Required != none {
		inRoles(&g, 1, rapid.Bool().Draw(t, "enforced"))
		return w, g
	}
	at := rapid.IntRange(0, 2).Draw(t, "placed")
	for i := range at {
		role := Prefill + Role(rapid.IntRange(0, 1).Draw(t, fmt.Sprintf("role%d", i)))
		of := slices.IndexFunc(g.Components, func(s Component) bool { return s.Name[0] == role.String()[0] })
		if of < 0 || g.Components[of].Required != none && !g.Components[of].Multinode {
			continue
		}
		g.Components[of].Placed++
		defer func(one Paired) { g.Pairing.At = append(g.Pairing.At, one) }(Paired{Role: role,
			Domain: append(rackPath(rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("at%d", i))), "s0")})
	}
	inRoles(&g, 1, rapid.Bool().Draw(t, "enforced"))
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
	counts, before := map[pairsIn][2]int{}, map[pairsIn][2]int{}
	add := func(to map[pairsIn][2]int, rack int, role Role, generation string) {
		n := to[pairsIn{rack, generation}]
		n[role-Prefill]++
		to[pairsIn{rack, generation}] = n
	}
	for _, one := range b.g.Pairing.At {
		rack := int(one.Domain[1][1] - '0')
		add(counts, rack, one.Role, one.Generation)
		add(before, rack, one.Role, one.Generation)
	}
	if !b.begins(list) {
		return v, false
	}
	for _, one := range list {
		if one.rack < 0 {
			continue
		}
		s := &b.g.Components[one.component]
		v[1]++
		if one.replica < s.MinAvailable-s.Placed {
			v[0]++
		}
		add(counts, one.rack, s.Role, s.Waiting[one.replica].Generation)
	}
	known := map[string]bool{}
	for _, path := range b.w.paths {
		known[path[1]] = true
	}
	for at, n := range counts {
		if !known[fmt.Sprintf("r%d", at.rack)] { // replicas that the cluster has no domain for
			v[2] -= b.g.Pairing.imbalance(n[0], 0) + b.g.Pairing.imbalance(0, n[1])
			continue
		}
		v[2] -= b.g.Pairing.imbalance(n[0], n[1])
		opened := before[at] == [2]int{} && n != [2]int{}
		if b.g.Pairing.Required && opened && (n[0] == 0 || n[1] == 0) {
			return v, false
		}
	}
	return v, true
}

// pairsIn is a rack, as the replicas of one generation see it.
type pairsIn struct {
	rack       int
	generation string
}

// begins reports whether the first replicas of components are placed together or not at all, and all replicas of a packed graph in one
// zone.
func (b bruteRoles) begins(list []placed) bool {
	heads, placedHeads, zone := 0, 0, ""
	for si := range b.g.Components {
		s := &b.g.Components[si]
		here, others := 0, 0
		for _, one := range list {
			if one.component != si || one.rack < 0 {
				continue
			}
			at := rackPath(one.rack)[0]
			if b.g.Required != none && zone != "" && zone != at {
				return false
			}
			zone = at
			if one.replica < s.MinAvailable {
				here++
			} else {
				others++
			}
		}
		first := min(s.MinAvailable, len(s.Waiting))
		heads, placedHeads = heads+first, placedHeads+here
		if s.Placed == 0 && first > 1 && (here != first && here+others > 0) {
			return false
		}
	}
	return b.g.Required == none || zone == "" || placedHeads == heads
}

// valueOf is the value of an answer.
func (b bruteRoles) valueOf(t *rapid.T, r *Result) value {
	var list []placed
	for _, one := range r.Replicas {
		rack := -1
		if one.Refusal == nil && len(one.Domain) < 2 {
			t.Fatalf("%s-%d is in no rack: %v", one.Component, one.Ordinal, summary(*r))
		}
		if one.Refusal == nil {
			rack = int(one.Domain[1][1] - '0')
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
		g := &Group{Required: none, Within: rackPath(rack)}
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
