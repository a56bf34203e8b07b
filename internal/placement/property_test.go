// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// ample is a budget that no small cluster uses up.
var ample = Options{Budget: 20_000_000}

func (w *world) plan(g *Group) (*GroupResult, *Refusal) {
	return PlanGroup(w.cluster(inOrder(len(w.paths))), w.levels, nil, g, ample)
}

// TestMoreCapacityNeverHurts: a node more, or a pod less, never turns a placed group into a refused one.
func TestMoreCapacityNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		left := 8
		g := drawGroup(t, "g", none, 2, &left)
		if _, why := w.plan(g); why != nil {
			return
		}
		more := w
		more.paths = append(slices.Clone(w.paths), rapid.SampledFrom(w.paths).Draw(t, "path"))
		more.gpu = append(slices.Clone(w.gpu), rapid.IntRange(0, 4).Draw(t, "more gpu"))
		more.cpu = append(slices.Clone(w.cpu), rapid.IntRange(0, 4).Draw(t, "more cpu"))
		if _, why := more.plan(g); why != nil {
			t.Fatalf("refused with a node more: %s", why.Message())
		}
		shrink(t, g)
		if _, why := w.plan(g); why != nil {
			t.Fatalf("refused with less to place: %s", why.Message())
		}
	})
}

// shrink takes pods out of a group and the groups in it.
func shrink(t *rapid.T, g *Group) {
	for i := len(g.Pods) - 1; i >= 0; i-- {
		if rapid.Bool().Draw(t, "drop "+g.Pods[i].ID) {
			g.Pods = slices.Delete(g.Pods, i, i+1)
		}
	}
	for _, sub := range g.Groups {
		shrink(t, sub)
	}
}

// drawGraph draws a graph of up to three components.
func drawGraph(t *rapid.T) Demand {
	g := Demand{Levels: levels("zone", "block", "rack"), Required: none, Preferred: none}
	level := func(label string) int { return rapid.IntRange(none, depth-1).Draw(t, label) }
	g.Required, g.Preferred = level("required"), level("preferred")
	for i := range rapid.IntRange(1, 3).Draw(t, "services") {
		name := "s" + strconv.Itoa(i)
		shape := need{rapid.IntRange(0, 3).Draw(t, name+" gpu"), rapid.IntRange(0, 3).Draw(t, name+" cpu")}.shape()
		n := rapid.IntRange(1, 3).Draw(t, name+" pods")
		s := componentOf(name, level(name+" required"), level(name+" preferred"), rapid.IntRange(1, 3).Draw(t, name+" replicas"), n, shape)
		if n > 1 && rapid.Bool().Draw(t, name+" leader") {
			for r := range s.Waiting {
				s.Waiting[r].Pods[0].Shape = need{0, 1}.shape()
			}
		}
		g.Components = append(g.Components, s)
	}
	return g
}

// TestGraphsKeepEveryRule: whatever is placed is whole, inside its domains and within capacity; the base gang is placed exactly when it
// can be; what is refused is explained.
func TestGraphsKeepEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, g := drawWorld(t), drawGraph(t)
		r := PlanGraph(w.cluster(inOrder(len(w.paths))), g, ample)
		w.checkGraph(t, &g, &r)
		if g.Required == none {
			return
		}
		base := &Group{Required: g.Required}
		for _, s := range g.Components {
			base.Groups = append(base.Groups, &Group{Required: s.Required, Pods: s.Waiting[0].Pods})
		}
		for i := range r.Replicas {
			if one := &r.Replicas[i]; one.Ordinal == 0 && (one.Refusal == nil) != w.brute(base) {
				t.Fatalf("base gang placed %v, possible %v", one.Refusal == nil, w.brute(base))
			}
		}
	})
}

func (w *world) checkGraph(t *rapid.T, g *Demand, r *Result) {
	all := &Group{Required: none}
	got := &GroupResult{}
	unit := map[string]topology.Path{}
	for _, one := range r.Replicas {
		if one.Refusal != nil {
			if m := one.Refusal.Message(); m == "" || len(m) > MaxMessage {
				t.Fatalf("message %q", m)
			}
			continue
		}
		s := g.Components[slices.IndexFunc(g.Components, func(s Component) bool { return s.Name == one.Component })]
		all.Groups = append(all.Groups, &Group{Name: one.Component, Required: s.Required, Pods: s.Waiting[one.Ordinal].Pods})
		got.Groups = append(got.Groups, &GroupResult{Domain: one.Domain, Pods: one.Pods})
		if g.Required != none && (r.Domain.Level() != g.Required || !r.Domain.Contains(one.Domain)) {
			t.Fatalf("%s-%d in %q, graph in %q", one.Component, one.Ordinal, one.Domain, r.Domain)
		}
		if !s.Multinode && s.Required != none {
			at := one.Domain.Truncate(max(s.Required, g.Required))
			if before, ok := unit[s.Name]; ok && !before.Equal(at) {
				t.Fatalf("single-node service %s in %q and %q", s.Name, before, at)
			}
			unit[s.Name] = at
		}
	}
	w.check(t, all, got)
	if r.Score != Unscored && (r.Score < 0 || r.Score > 1) {
		t.Fatalf("score %v", r.Score)
	}
}

// TestOrderDoesNotMatter: nodes, components and replicas in any order, the same answer; and the same answer after the cluster has lived.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, g := drawWorld(t), drawGraph(t)
		want := PlanGraph(w.cluster(inOrder(len(w.paths))), g, Options{})
		other := w.cluster(rapid.Permutation(inOrder(len(w.paths))).Draw(t, "order"))
		g.Components = rapid.Permutation(g.Components).Draw(t, "services")
		for i := range g.Components {
			g.Components[i].Waiting = rapid.Permutation(g.Components[i].Waiting).Draw(t, "replicas")
		}
		other.Begin()
		PlanGraph(other, g, Options{})
		other.Rollback()
		got := PlanGraph(other, g, Options{})
		if diff := cmp.Diff(summary(want), summary(got)); diff != "" {
			t.Fatalf("replicas:\n%s", diff)
		}
		if diff := cmp.Diff(refusals(want), refusals(got)); diff != "" {
			t.Fatalf("refusals:\n%s", diff)
		}
	})
}

func refusals(r Result) []string {
	var list []string
	for _, one := range r.Replicas {
		if one.Refusal != nil {
			list = append(list, one.Refusal.Message())
		}
	}
	return list
}

// TestCrowdNeverSplits: 200 graphs on a cluster that is 95 % full end with every gang whole or not placed at all.
func TestCrowdNeverSplits(t *testing.T) {
	ls := levels("zone", "rack")
	var nodes []string
	for i := range 320 {
		used := " used=8"
		if i%20 == 0 {
			used = ""
		}
		nodes = append(nodes, fmt.Sprintf("n%03d z%d/r%d 8%s", i, i/160, i/16, used))
	}
	c := clusterOf(ls, nodes...)
	placed := 0
	for i := range 200 {
		g := Demand{Levels: ls, Required: 0, Preferred: none,
			Components: []Component{componentOf("g"+strconv.Itoa(i), 1, none, 1, 2, gpus(4)), componentOf("h"+strconv.Itoa(i), none, none, 1, 1, gpus(2))}}
		r := PlanGraph(c, g, Options{})
		whole := 0
		for _, one := range r.Replicas {
			if one.Refusal == nil {
				whole++
			}
			for _, p := range one.Pods {
				if node, held := c.Reserved(p.ID); !held || node != p.Node {
					t.Fatalf("%s planned on %s, reserved on %q", p.ID, p.Node, node)
				}
			}
		}
		if whole == 1 {
			t.Fatalf("half of base gang %d placed", i)
		}
		placed += whole / 2
	}
	if placed < 12 {
		t.Errorf("%d graphs placed; 16 free hosts hold at least 12", placed)
	}
}

// TestQuickAgrees: the answer by classes is the answer by looking at every domain.
func TestQuickAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		c := w.cluster(inOrder(len(w.paths)))
		if rapid.Bool().Draw(t, "racks only") {
			w.levels = levels("zone", "block")
		}
		n := rapid.IntRange(1, 5).Draw(t, "pods")
		g := &Group{Required: rapid.IntRange(0, len(w.levels)-1).Draw(t, "level"), Preferred: none,
			Pods: pods("p", n, need{rapid.IntRange(0, 2).Draw(t, "gpu"), 1}.shape())}
		if rapid.Bool().Draw(t, "two shapes") {
			g.Pods = append(g.Pods, pods("q", 1, need{1, 2}.shape())...)
		}
		tree := c.Tree(w.levels, nil)
		u, s := prepare(tree, g), newSearch(c, tree, Options{})
		for range 2 {
			choices := s.choices(u, topology.Root)
			quick, all := choices.quick(), choices.ranked(shortlist)
			if quick != topology.Nowhere && quick != all[0] {
				t.Fatalf("quick says %s, ranking says %s", tree.Path(quick), tree.Path(all[0]))
			}
			if quick == topology.Nowhere && len(all) > 0 && g.Required == len(w.levels)-1 {
				t.Fatalf("no quick answer at the narrowest level, ranking says %s", tree.Path(all[0]))
			}
			PlanGroup(c, w.levels, nil, &Group{Required: none, Preferred: none, Pods: pods("other", 2, need{1, 1}.shape())}, Options{})
		}
	})
}
