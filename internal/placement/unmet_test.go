// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestUnmetNeverMissesAPlace: whatever happens to nodes, a graph of which something is refused can be placed further only after MayFit was true for one of
// the changed nodes.
func TestUnmetNeverMissesAPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, g := drawWorld(t), drawGraph(t)
		c := w.cluster(inOrder(len(w.paths)))
		for i := range w.paths {
			c.SetPod(busy(i, rapid.IntRange(0, w.gpu[i]).Draw(t, fmt.Sprint("busy gpu", i)), rapid.IntRange(0, w.cpu[i]).Draw(t, fmt.Sprint("busy cpu", i))))
		}
		r := PlanGraph(c, g, ample)
		u := UnmetOf(g, &r)
		if u == nil {
			return
		}
		rest := whatIsLeft(g, &r)
		for k := range rapid.IntRange(1, 6).Draw(t, "changes") {
			i := rapid.IntRange(0, len(w.paths)-1).Draw(t, fmt.Sprint("node", k))
			switch rapid.IntRange(0, 2).Draw(t, fmt.Sprint("change", k)) {
			case 0:
				c.DeletePod(fmt.Sprint("test/busy-", i))
			case 1:
				w.gpu[i], w.cpu[i] = w.gpu[i]+rapid.IntRange(0, 3).Draw(t, fmt.Sprint("more gpu", k)), w.cpu[i]+rapid.IntRange(0, 3).Draw(t, fmt.Sprint("more cpu", k))
			default:
				w.paths[i] = rapid.SampledFrom(w.paths).Draw(t, fmt.Sprint("path", k))
			}
			path := w.paths[i].String()
			if path == "" {
				path = "-"
			}
			name := fmt.Sprintf("n%02d", i)
			c.SetNode(nodeOf(w.levels, fmt.Sprintf("%s %s %d cpu=%d", name, path, w.gpu[i], w.cpu[i])))
			if u.MayFit(c, name) {
				return
			}
			c.Begin()
			again := PlanGraph(c, rest, ample)
			c.Rollback()
			if slices.ContainsFunc(again.Replicas, func(one ReplicaResult) bool { return one.Refusal == nil }) {
				t.Fatalf("%v can be placed after a change of %s, which was said not to matter", summary(again), name)
			}
		}
	})
}

func busy(node, gpus, cpus int) *corev1.Pod {
	p := podOf(map[string]string{gpu: fmt.Sprint(gpus), "cpu": fmt.Sprint(cpus)})
	p.Name, p.Spec.NodeName = fmt.Sprint("busy-", node), fmt.Sprintf("n%02d", node)
	return p
}

// whatIsLeft is a graph after what a plan has placed is released.
func whatIsLeft(g Demand, r *Result) Demand {
	if g.Required != none {
		g.Anchor = r.Domain
	}
	components := slices.Clone(g.Components)
	for i := range components {
		s := &components[i]
		s.Waiting = nil
		for _, replica := range g.Components[i].Waiting {
			at := slices.IndexFunc(r.Replicas, func(one ReplicaResult) bool { return one.Component == s.Name && one.Ordinal == replica.Ordinal })
			one := r.Replicas[at]
			if one.Refusal != nil {
				s.Waiting = append(s.Waiting, replica)
				continue
			}
			s.Placed++
			s.InUse = append(s.InUse, one.Domain)
			if !s.Multinode && s.Required != none {
				s.Anchor = one.Domain.Truncate(s.Required)
			}
		}
	}
	g.Components = components
	return g
}

// MayFit is narrow: it is false for a node elsewhere, and for a domain that does not hold the gang.
func TestMayFit(t *testing.T) {
	ls := levels("zone", "rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}
	for name, tc := range map[string]struct {
		freed []string
		want  bool
	}{
		"half of a rack":       {[]string{"a0"}, false},
		"a half of two racks":  {[]string{"a0", "b0"}, false},
		"a rack":               {[]string{"a0", "a1"}, true},
		"a node without rack":  {[]string{"z0"}, false},
		"nothing is free":      {nil, false},
		"a node that is gone":  {[]string{"none"}, false},
		"the part of a host":   {[]string{"c0"}, false},
		"a rack, and the rest": {[]string{"b0", "b1", "a0"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithGangs(ls, "a0 z/r0 8", "a1 z/r0 8", "b0 z/r1 8", "b1 z/r1 8", "c0 z/r2 4", "c1 z/r2 8", "z0 z 8")
			runs(c, "a0 x0 0 8", "a1 x1 0 8", "b0 x2 0 8", "b1 x3 0 8", "c0 x4 0 4", "c1 x5 0 8", "z0 x6 0 8")
			c.Begin()
			r := PlanGraph(c, g, Options{})
			c.Rollback()
			u := UnmetOf(g, &r)
			may := false
			for _, node := range tc.freed {
				if n, known := c.Node(node); known {
					for _, v := range c.Victims(nil, n, 1) {
						c.Evict(v)
					}
				}
				may = u.MayFit(c, node)
				if _, known := c.Node(node); !known && may {
					t.Error("a node that is not there may hold it")
				}
				if may {
					break
				}
			}
			if may != tc.want {
				t.Errorf("%v, want %v", may, tc.want)
			}
		})
	}
}

// What is refused for something else than capacity may be placed after any change.
func TestUnmetOfOtherReasons(t *testing.T) {
	g := Demand{Levels: levels("zone", "rack"), Components: []Component{componentOf("w", 1, none, 2, 2, gpus(8))}}
	for code, known := range map[string]bool{CodeInsufficientCapacity: true, CodeNoDomain: false, CodeBudgetExhausted: false, CodeDomainGone: false, CodeBaseGangWaits: true} {
		r := Result{Replicas: []ReplicaResult{
			{Component: "w", Refusal: &Refusal{Code: CodeInsufficientCapacity, Level: none}}, {Component: "w", Ordinal: 1, Refusal: &Refusal{Code: code, Level: none}},
		}}
		if u := UnmetOf(g, &r); (u != nil) != known {
			t.Errorf("%s: %v", code, u)
		}
	}
	if u := UnmetOf(g, &Result{Replicas: []ReplicaResult{{Component: "w", Refusal: &Refusal{Code: CodeBaseGangWaits}}}}); u != nil {
		t.Errorf("the base gang is placed: %v", u)
	}
}

// Alike gangs are one: what a change of a node costs does not grow with the number of replicas that wait.
func TestUnmetOfAlikeGangs(t *testing.T) {
	ls := levels("zone", "rack")
	const many = 4000
	components := []Component{componentOf("w", 1, none, many, 2, gpus(8)), componentOf("x", 1, none, many, 2, gpus(4)), componentOf("y", 0, none, 2, 2, gpus(4))}
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: components}
	r := Result{}
	for _, s := range components {
		for _, replica := range s.Waiting {
			refusal := &Refusal{Code: CodeInsufficientCapacity, Level: s.Required}
			if s.Name == "y" && replica.Ordinal == 1 {
				refusal.Within = topology.Path{"z"}
			}
			r.Replicas = append(r.Replicas, ReplicaResult{Component: s.Name, Ordinal: replica.Ordinal, Refusal: refusal})
		}
	}
	u := UnmetOf(g, &r)
	var got []string
	for _, m := range u.gangs {
		for _, p := range m.pods {
			got = append(got, fmt.Sprintf("%d %v: %d", m.level, m.within, p.pods))
		}
	}
	if want := []string{"1 : 2", "1 : 2", "0 : 2", "0 z: 2"}; !slices.Equal(got, want) {
		t.Errorf("%d gangs, of %q, want %q", len(u.gangs), got[:min(len(got), 10)], want)
	}
}

// The replicas of the base gang are one gang, and others are gangs of their own.
func TestUnmetOfABaseGang(t *testing.T) {
	ls := levels("zone")
	g := Demand{Levels: ls, Components: []Component{componentOf("v", none, none, 1, 1, gpus(8)), componentOf("w", none, none, 1, 1, gpus(8)), componentOf("x", none, none, 1, 1, gpus(8))}}
	short := &Refusal{Code: CodeInsufficientCapacity}
	base := Result{Replicas: []ReplicaResult{{Component: "v", Base: true, Refusal: short}, {Component: "w", Base: true, Refusal: short}}}
	beside := Result{Replicas: append(base.Replicas, ReplicaResult{Component: "x", Refusal: short})}
	c := clusterWithGangs(ls, "a0 z 8")
	if UnmetOf(g, &base).MayFit(c, "a0") {
		t.Error("one host is enough for two pods")
	}
	if !UnmetOf(g, &beside).MayFit(c, "a0") {
		t.Error("one host is not enough for one pod")
	}
}
