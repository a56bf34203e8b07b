// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// puzzles are components whose shapes fit one rack by every count and cannot be packed: each takes a search all its steps.
func puzzles(n int) (topology.Levels, *topology.Cluster, []Component) {
	ls := levels("rack")
	c := topology.NewCluster()
	for i := range 64 {
		c.SetNode(nodeOf(ls, fmt.Sprintf("n%02d r 1 cpu=%d", i, 10+i%7)))
	}
	var components []Component
	for k := range n {
		s := componentOf(fmt.Sprintf("hard-%02d", k), 0, none, 1, 1, cpus(1))
		s.Multinode, s.Waiting[0].Pods = true, nil
		for i, size := range []int{3, 4, 5, 7} {
			s.Waiting[0].Pods = append(s.Waiting[0].Pods, pods(fmt.Sprintf("%d-%d", k, i), 43, cpus(size))...)
		}
		components = append(components, s)
	}
	return ls, c, components
}

// A graph of many components that are each as hard as can be takes no more than the plan's budget, and one that is easy is placed nevertheless.
func TestPlanEndsWithItsBudget(t *testing.T) {
	const budget = 500_000
	ls, c, components := puzzles(30)
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: append(components[:10:10], componentOf("hard-09-easy", 0, none, 1, 2, cpus(2)))}
	g.Components = append(g.Components, components[10:]...)
	before := c.Work()
	r := PlanGraph(c, g, Options{PlanBudget: budget})
	if used := c.Work() - before; used > 2*budget {
		t.Errorf("%d comparisons with a budget of %d", used, budget)
	}
	stopped := 0
	for _, one := range r.Replicas {
		switch {
		case strings.HasSuffix(one.Component, "easy"):
			if one.Refusal != nil {
				t.Errorf("the easy service is refused: %s", one.Refusal.Message())
			}
		case one.Refusal == nil || one.Refusal.Code != CodeBudgetExhausted:
			t.Errorf("%s: %+v", one.Component, one.Refusal)
		case one.Refusal.Compared > 0:
			stopped++
		}
	}
	if stopped == 0 {
		t.Error("nothing is refused for the plan's budget")
	}
	want := "needs 43 pods x 3 cpu + 43 pods x 4 cpu + 43 pods x 5 cpu + 43 pods x 7 cpu in one rack; " +
		"the plan of the graph stopped after 500000 comparisons of its pods with hosts, without an answer"
	if got := r.Replicas[len(r.Replicas)-1].Refusal.Message(); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// TestAnyBudgetKeepsEveryRule: whatever a plan may cost, what it places is whole and within capacity, what it refuses is explained, and what it tried
// is taken back.
func TestAnyBudgetKeepsEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, g := drawWorld(t), drawGraph(t)
		c := w.cluster(inOrder(len(w.paths)))
		r := PlanGraph(c, g, Options{PlanBudget: rapid.IntRange(1, 4000).Draw(t, "budget")})
		w.checkGraph(t, &g, &r)
		first := map[bool]int{}
		for _, one := range r.Replicas {
			if one.Refusal == nil {
				for _, pod := range one.Pods {
					c.Forget(pod.ID)
				}
			}
			if one.Ordinal == 0 {
				first[one.Refusal == nil]++
			}
		}
		if g.Required != none && len(first) > 1 {
			t.Fatalf("a base gang of %d services is placed in part: %d", len(g.Components), first[true])
		}
		fresh := w.cluster(inOrder(len(w.paths)))
		if diff := cmp.Diff(summary(PlanGraph(fresh, g, ample)), summary(PlanGraph(c, g, ample))); diff != "" {
			t.Fatalf("after a plan that stopped (+), and before (-):\n%s", diff)
		}
	})
}

// TestAnyBudgetPreempts: a plan that preempts leaves all pods where they were, and has its victims on the hosts that it planned.
func TestAnyBudgetPreempts(t *testing.T) {
	ls := levels("zone", "rack")
	var nodes, busy []string
	for i := range 16 {
		nodes = append(nodes, fmt.Sprintf("n%02d z%d/r%d 8", i, i/8, i/4))
		for k := range 8 {
			busy = append(busy, fmt.Sprintf("n%02d g%d 1 1", i, (8*i+k)/(1+i%3)))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := clusterWithGangs(ls, nodes...)
		runs(c, busy...)
		g := Demand{Levels: ls, Required: none, Preferred: none, Priority: 2, Preempts: true}
		g.Components = []Component{componentOf("w", rapid.IntRange(0, 1).Draw(t, "level"), none, 2, 2, gpus(4))}
		r := PlanGraph(c, g, Options{PlanBudget: rapid.IntRange(1, 30_000).Draw(t, "budget")})
		for _, one := range r.Replicas {
			if one.Refusal == nil && (one.Preempts == nil || one.Preempts.Pods < 8) {
				t.Fatalf("placed on full hosts at the cost of %+v", one.Preempts)
			}
		}
		for i := range 16 {
			id, _ := c.Node(fmt.Sprintf("n%02d", i))
			if n := len(c.Victims(nil, id, 2)); n != 8 {
				t.Fatalf("%d pods are left on %s", n, c.NodeName(id))
			}
		}
	})
}

// BenchmarkPuzzles plans a graph of many components, each as hard as can be.
func BenchmarkPuzzles(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run("services="+strconv.Itoa(n), func(b *testing.B) {
			ls, c, components := puzzles(n)
			for b.Loop() {
				before := c.Work()
				PlanGraph(c, Demand{Levels: ls, Required: none, Preferred: none, Components: components}, Options{})
				b.ReportMetric(float64(c.Work()-before), "comparisons")
			}
		})
	}
}
