// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestPairingKeepsAnchors: the rest of a release that was cut short has its domain before replicas that may go elsewhere.
func TestPairingKeepsAnchors(t *testing.T) {
	ls := levels("rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		componentOf("decode", 0, none, 2, 2, gpus(8)), {Name: "prefill", Required: none, Preferred: none, Placed: 1}}}
	half := &g.Components[0].Waiting[1]
	half.Anchor, half.Pods = topology.Path{"r1"}, half.Pods[:1]
	inRoles(&g, 0, true)
	g.Pairing.At = []Paired{{Role: Prefill, Domain: topology.Path{"r1"}}}
	r := PlanGraph(clusterOf(ls, "a r1 8", "b r1 8", "c r2 8"), g, Options{})
	if diff := cmp.Diff("decode-1 r1: a", summary(r)[1]); diff != "" {
		t.Errorf("%s\n%v %v", diff, summary(r), refusals(r))
	}
}

// TestPairingNotesHeads: the replicas that a component does not run without are marked as such, with a pairing or without.
func TestPairingNotesHeads(t *testing.T) {
	ls := levels("rack")
	for _, paired := range []bool{false, true} {
		g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
			componentOf("decode", none, none, 3, 1, gpus(8)), componentOf("prefill", none, none, 1, 1, gpus(8))}}
		g.Components[0].MinAvailable = 2
		if paired {
			inRoles(&g, 0, true)
		}
		r := PlanGraph(clusterOf(ls, racksOfOne(1, 4)...), g, Options{})
		for _, one := range r.Replicas {
			if head := one.Component == "decode" && one.Ordinal < 2; one.Refusal != nil || one.Head != head {
				t.Errorf("paired %v: %s-%d is of the first replicas: %v, want %v; %v", paired, one.Component, one.Ordinal, one.Head, head, one.Refusal)
			}
		}
	}
}

// racksOfOne is racks of a topology of racks alone, of hosts with 8 GPUs.
func racksOfOne(racks, hosts int) []string { return racksIn("", racks, hosts) }

// TestPairingKeepsHeadsTogether: the replicas that a component does not run without are placed together or not at all, also after other
// components.
func TestPairingKeepsHeadsTogether(t *testing.T) {
	ls := levels("rack")
	for _, required := range []bool{false, true} {
		g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
			componentOf("decode", none, none, 2, 1, gpus(8)), componentOf("frontend", none, none, 1, 1, cpus(1)),
			componentOf("prefill", none, none, 1, 2, gpus(8))}}
		g.Components[0].MinAvailable = 2
		inRoles(&g, 0, required)
		r := PlanGraph(clusterOf(ls, racksOfOne(1, 1)...), g, Options{})
		for _, one := range r.Replicas {
			if one.Component == "decode" && one.Refusal == nil {
				t.Errorf("required %v: one of two is placed: %v", required, summary(r))
			}
		}
	}
}

// TestPairingAmongManyDomains: a domain that holds both roles is found, however many hold more replicas of one of them.
func TestPairingAmongManyDomains(t *testing.T) {
	ls := levels("rack")
	var nodes []string
	for i := range 4 * mostPairDomains { // few are alike, and none has a whole host
		for h := range 4 {
			nodes = append(nodes, fmt.Sprintf("a%03d-%d a%03d 8 used=%d", i, h, i, 1+i>>(2*h)&3))
		}
	}
	nodes = append(nodes, "z1 z 8", "z2 z 8 used=6")
	for _, required := range []bool{false, true} {
		g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
			componentOf("decode", none, none, 16, 1, gpus(1)), componentOf("prefill", none, none, 1, 1, gpus(8))}}
		inRoles(&g, 0, required)
		r := PlanGraph(clusterOf(ls, nodes...), g, Options{})
		if _, prefill := sharesOf(&r, 0); prefill != 1 {
			t.Errorf("required %v: prefill has no decode in its rack: %v %v", required, summary(r), refusals(r))
		}
	}
}

// TestPairingPreemptsHeads: the first replicas of both roles, which begin together, preempt in one domain and not each in one of its own.
func TestPairingPreemptsHeads(t *testing.T) {
	ls := levels("rack")
	for _, hosts := range []int{2, 4} {
		c := topology.NewCluster()
		for _, node := range racksOfOne(2, hosts) {
			n := nodeOf(ls, node)
			c.SetNode(n)
			low := podOf(map[string]string{gpu: "8"})
			priority := int32(-10)
			low.Name, low.Spec.NodeName, low.Spec.Priority = "low-"+n.Name, n.Name, &priority
			c.SetPod(low)
		}
		g := Demand{Levels: ls, Required: none, Preferred: none, Preempts: true, Components: []Component{
			componentOf("decode", none, none, 2, 1, gpus(8)), componentOf("prefill", none, none, 2, 1, gpus(8))}}
		g.Components[0].MinAvailable, g.Components[1].MinAvailable = 2, 2
		inRoles(&g, 0, true)
		r := PlanGraph(c, g, Options{})
		want := 0
		if hosts == 4 {
			want = 2
		}
		if decode, prefill := sharesOf(&r, 0); decode != want || prefill != want || r.Placed() != (want > 0) {
			t.Errorf("racks of %d hosts: %d decode and %d prefill replicas are paired, want %d:\n%v", hosts, decode, prefill, want, summary(r))
		}
	}
}

// TestPairingSpreadsHeads: the first replicas of both roles of a base gang are in several domains where none holds all of them.
func TestPairingSpreadsHeads(t *testing.T) {
	ls := levels("zone", "rack")
	for _, required := range []bool{false, true} {
		g := Demand{Levels: ls, Required: 0, Preferred: none, Components: []Component{
			componentOf("decode", none, none, 3, 1, gpus(8)), componentOf("prefill", none, none, 3, 1, gpus(8))}}
		g.Components[0].MinAvailable, g.Components[1].MinAvailable = 2, 2
		inRoles(&g, 1, required)
		r := PlanGraph(clusterOf(ls, racksOf(2, 2)...), g, Options{})
		if decode, prefill := sharesOf(&r, 1); decode != 2 || prefill != 2 {
			t.Errorf("required %v: %d decode and %d prefill replicas have a partner, want 2 of each: %v %v", required, decode, prefill,
				summary(r), refusals(r))
		}
	}
}

// TestPairingWithinTheBudget: a plan that tries several orders keeps what it needs to place the best one.
func TestPairingWithinTheBudget(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, racksOf(20, 4)...)
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		componentOf("prefill", 1, none, 30, 2, gpus(8)), componentOf("decode", 1, none, 30, 2, gpus(8)),
		componentOf("other", 1, none, 10, 2, gpus(8))}}
	inRoles(&g, 1, true)
	plan := func(budget int) (placed int, work uint64) {
		c.Begin()
		defer c.Rollback()
		before := c.Work()
		r := PlanGraph(c, g, Options{PlanBudget: budget})
		for _, one := range r.Replicas {
			if one.Refusal == nil {
				placed++
			}
		}
		return placed, c.Work() - before
	}
	all, work := plan(0)
	for tenths, least := range map[int]int{5: 1, 7: all / 2, 9: all / 2} {
		if placed, _ := plan(int(work) * tenths / 10); placed < least {
			t.Errorf("%d tenths of the comparisons place %d of %d replicas, want at least %d", tenths, placed, all, least)
		}
	}
}
