// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// life is a deployment whose two roles are scaled at random, on racks that it shares with others.
type life struct {
	cluster *topology.Cluster
	levels  topology.Levels
	wanted  map[string]int
	// at are the racks of the replicas that are placed, by component and ordinal.
	at map[string]map[int]topology.Path
}

// scale has so many replicas of a component, with a pairing or without.
func (l *life) scale(component string, replicas int, p *Pairing) {
	for len(l.at[component]) > replicas {
		ordinal := l.least(component, p != nil)
		delete(l.at[component], ordinal)
		l.cluster.Forget(fmt.Sprintf("%s-%d-0", component, ordinal))
	}
	l.wanted[component] = replicas
	g := Demand{Levels: l.levels, Required: none, Preferred: none}
	for _, name := range []string{"decode", "prefill"} {
		s := Component{Name: name, Required: none, Preferred: none, Role: roleOf(name), Placed: len(l.at[name])}
		for ordinal := 0; len(s.Waiting) < l.wanted[name]-len(l.at[name]); ordinal++ {
			if l.at[name][ordinal] == nil {
				s.Waiting = append(s.Waiting, Replica{Ordinal: ordinal, Pods: pods(fmt.Sprintf("%s-%d", name, ordinal), 1, gpus(8))})
			}
		}
		g.Components = append(g.Components, s)
	}
	if p != nil {
		one := *p
		one.Prefill, one.Decode = l.wanted["prefill"], l.wanted["decode"]
		for _, name := range []string{"decode", "prefill"} {
			for _, path := range l.at[name] {
				one.At = append(one.At, Paired{Role: roleOf(name), Domain: path})
			}
		}
		g.Pairing = &one
	}
	for _, one := range PlanGraph(l.cluster, g, Options{}).Replicas {
		if one.Refusal == nil {
			l.at[one.Component][one.Ordinal] = l.rackOf(one.Pods[0].Node)
		}
	}
}

func roleOf(component string) Role {
	if component == "prefill" {
		return Prefill
	}
	return Decode
}

func (l *life) rackOf(node string) topology.Path { return l.levels.PathOf(l.cluster.NodeLabels(node)) }

// least is the ordinal of the replica that is scaled in: the youngest, or where its role is in excess.
func (l *life) least(component string, paired bool) int {
	ordinals := make([]int, 0, len(l.at[component]))
	for ordinal := range l.at[component] {
		ordinals = append(ordinals, ordinal)
	}
	slices.Sort(ordinals)
	best, most := ordinals[len(ordinals)-1], 0
	if !paired {
		return best
	}
	other := map[string]string{"decode": "prefill", "prefill": "decode"}[component]
	for i, ordinal := range slices.Backward(ordinals) {
		mine, theirs := 0, 0
		for _, path := range l.at[component] {
			if path.Equal(l.at[component][ordinal]) {
				mine++
			}
		}
		for _, path := range l.at[other] {
			if path.Equal(l.at[component][ordinal]) {
				theirs++
			}
		}
		if excess := mine*max(l.wanted[other], 1) - theirs*max(l.wanted[component], 1); i == len(ordinals)-1 || excess > most {
			best, most = ordinal, excess
		}
	}
	return best
}

// share is how many of the decode replicas have prefill in their rack, and how many there are.
func (l *life) share() (paired, all int) {
	for _, path := range l.at["decode"] {
		all++
		for _, other := range l.at["prefill"] {
			if path.Equal(other) {
				paired++
				break
			}
		}
	}
	return paired, all
}

// TestPairingLife scales the roles 200 times at random: with the pairing more decode replicas have prefill in their rack than without.
func TestPairingLife(t *testing.T) {
	run := func(p *Pairing) (share float64, placed int) {
		random := rand.New(rand.NewPCG(1, 2))
		ls := levels("rack")
		var nodes []string
		for r := range 40 {
			for h := range 4 {
				node := fmt.Sprintf("n%02d-%d r%02d 8", r, h, r)
				if random.IntN(3) == 0 {
					node += " used=8"
				}
				nodes = append(nodes, node)
			}
		}
		l := &life{cluster: clusterOf(ls, nodes...), levels: ls, wanted: map[string]int{},
			at: map[string]map[int]topology.Path{"decode": {}, "prefill": {}}}
		paired, all := 0, 0
		for range 200 {
			component := []string{"decode", "prefill"}[random.IntN(2)]
			l.scale(component, 1+random.IntN(16), p)
			n, of := l.share()
			paired, all = paired+n, all+of
		}
		return float64(paired) / float64(all), all
	}
	without, _ := run(nil)
	preferred, placed := run(&Pairing{Level: 0})
	required, fewer := run(&Pairing{Level: 0, Required: true})
	percent := func(share float64) int { return int(math.Round(100 * share)) }
	got := [4]int{percent(without), percent(preferred), percent(required), percent(float64(fewer) / float64(placed))}
	if want := [4]int{19, 56, 87, 91}; got != want { // docs/placement.md has them
		t.Errorf("decode replicas with prefill in their rack: %d %% without the pairing, %d %% preferred, %d %% required with %d %% as many, want %v",
			got[0], got[1], got[2], got[3], want)
	}
}

// TestPairingInTurn: a graph that is too large to be planned at once has its roles side by side, too.
func TestPairingInTurn(t *testing.T) {
	ls := levels("zone", "rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		componentOf("prefill", 1, none, 60, 2, gpus(8)), componentOf("decode", none, none, 120, 1, gpus(8))}}
	inRoles(&g, 1, true)
	r := PlanGraph(clusterOf(ls, racksOf(100, 6)...), g, Options{})
	if decode, prefill := sharesOf(&r, 1); !r.Placed() || decode != 120 || prefill != 60 {
		t.Errorf("%d of 120 decode and %d of 60 prefill replicas have a partner", decode, prefill)
	}
}

// TestNoCostWithoutAPairing: a graph without a pairing takes the allocations and the comparisons that it took before there were pairings.
func TestNoCostWithoutAPairing(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, racksOf(10, 4)...)
	for _, one := range []struct {
		required    int
		allocations float64
		comparisons uint64
	}{{0, 213, 73_236}, {none, 198, 70_788}} {
		g := Demand{Levels: ls, Required: one.required, Preferred: none, Components: []Component{
			componentOf("prefill", 1, none, 3, 2, gpus(8)), componentOf("decode", 1, none, 3, 2, gpus(8)),
			componentOf("frontend", none, none, 2, 1, cpus(1))}}
		plan := func() {
			c.Begin()
			PlanGraph(c, g, Options{})
			c.Rollback()
		}
		plan()
		before := c.Work()
		plan()
		if took := c.Work() - before; took > one.comparisons {
			t.Errorf("required %d: %d comparisons, want at most %d", one.required, took, one.comparisons)
		}
		if took := testing.AllocsPerRun(100, plan); took > one.allocations {
			t.Errorf("required %d: %v allocations, want at most %v", one.required, took, one.allocations)
		}
	}
}
