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

// spreadComponent has replicas of n pods of one GPU that are packed and spread over levels.
func spreadComponent(packed, replicas, n, required, preferred int, at ...string) Component {
	c := componentOf("decode", packed, none, replicas, n, gpus(1))
	c.Spread = &Spread{Required: required, Preferred: preferred}
	for _, text := range at {
		path := topology.Path{}
		for _, r := range text {
			path = append(path, string(r))
		}
		c.Spread.At = append(c.Spread.At, path)
		c.InUse, c.Placed = append(c.InUse, path), c.Placed+1
	}
	return c
}

// spreadGraph is a deployment of one component over zones and racks.
func spreadGraph(required int, c Component) Demand {
	return Demand{Levels: levels("zone", "rack"), Required: required, Preferred: none, Components: []Component{c}}
}

func TestSpread(t *testing.T) {
	const zone, rack = 0, 1
	two := []string{"n0 a/r 8", "n1 b/s 8"}
	tests := map[string]struct {
		graph Demand
		nodes []string
		want  []string
		why   string
	}{
		"packed without it": {
			graph: spreadGraph(none, spreadComponent(rack, 2, 2, none, none)), nodes: two,
			want: []string{"decode-0 a/r: n0 n0", "decode-1 a/r: n0 n0"},
		},
		"over zones": {
			graph: spreadGraph(none, spreadComponent(rack, 3, 2, zone, none)), nodes: two,
			want: []string{"decode-0 a/r: n0 n0", "decode-1 b/s: n1 n1", "decode-2 a/r: n0 n0"},
		},
		"over racks of one zone": {
			graph: spreadGraph(zone, spreadComponent(rack, 2, 2, rack, none)), nodes: []string{"n0 a/r 8", "n1 b/s 4", "n2 b/t 4"},
			want: []string{"decode-0 b/s: n1 n1", "decode-1 b/t: n2 n2"},
		},
		"a replica that has no rack of its own": {
			graph: spreadGraph(none, spreadComponent(none, 2, 2, zone, none)), nodes: two,
			want: []string{"decode-0 a: n0 n0", "decode-1 b: n1 n1"},
		},
		"single pods over racks of their zone": {
			graph: spreadGraph(none, spreadComponent(zone, 4, 1, rack, none)), nodes: []string{"n0 a/r 8", "n1 b/s 4", "n2 b/t 4"},
			want: []string{"decode-0 a/r: n0", "decode-1 a/r: n0", "decode-2 a/r: n0", "decode-3 a/r: n0"},
		},
		"single pods over racks of their graph's zone": {
			graph: spreadGraph(zone, spreadComponent(none, 4, 1, rack, none)), nodes: []string{"n0 a/r 3", "n1 b/s 4", "n2 b/t 4"},
			want: []string{"decode-0 b/s: n1", "decode-1 b/t: n2", "decode-2 b/s: n1", "decode-3 b/t: n2"},
		},
		"a replica waits for the zone that has fewer": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 8 used=7"},
			want: []string{"decode-0 InsufficientCapacity"},
			why: "spread over zones, it goes to b, which has 0 replicas where another has 1; " +
				"needs 2 pods x 1 nvidia.com/gpu in one zone; b holds 0 of 2; " +
				"there decode-0 needs 2 pods x 1 nvidia.com/gpu in one rack inside b; b/s holds 1 of 2 (1 of 2 nvidia.com/gpu free)",
		},
		"a single pod waits for the rack of its zone that has fewer": {
			graph: spreadGraph(none, func() Component {
				c := spreadComponent(zone, 1, 1, rack, none, "ar")
				c.Anchor = topology.Path{"a"}
				return c
			}()), nodes: []string{"n0 a/r 8", "n1 a/s 8 used=8"},
			want: []string{"decode-0 InsufficientCapacity"},
			why: "spread over racks, it goes to a/s, which has 0 replicas where another has 1; " +
				"needs 1 pod x 1 nvidia.com/gpu in a; it holds 0 of 1; " +
				"there decode-0 needs 1 pod x 1 nvidia.com/gpu in one rack inside a; a/s holds 0 of 1 (1 host short of nvidia.com/gpu)",
		},
		"of several zones that have fewer the tightest": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 8", "n2 c/t 2"},
			want: []string{"decode-0 c/t: n2 n2"},
		},
		"a zone that never holds a replica does not count": {
			graph: spreadGraph(none, spreadComponent(rack, 2, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 1"},
			want: []string{"decode-0 a/r: n0 n0", "decode-1 a/r: n0 n0"},
		},
		"nor one of which no rack does": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 1", "n2 b/t 1"},
			want: []string{"decode-0 a/r: n0 n0"},
		},
		"nor one of which no node is ready": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 8 notready"},
			want: []string{"decode-0 a/r: n0 n0"},
		},
		"a cordoned zone counts": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, zone, none, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 8 cordoned"},
			want: []string{"decode-0 InsufficientCapacity"},
		},
		"preferred: the zone that has fewer, if it has capacity": {
			graph: spreadGraph(none, spreadComponent(rack, 3, 2, none, zone, "ar")), nodes: []string{"n0 a/r 8", "n1 b/s 3"},
			want: []string{"decode-0 b/s: n1 n1", "decode-1 a/r: n0 n0", "decode-2 a/r: n0 n0"},
		},
		"preferred: over several zones at last": {
			graph: spreadGraph(none, spreadComponent(none, 1, 3, none, zone)), nodes: []string{"n0 a/r 2", "n1 b/s 1"},
			want: []string{"decode-0 : n0 n0 n1"},
		},
		"preferred: refused as without it": {
			graph: spreadGraph(none, spreadComponent(rack, 1, 2, none, zone, "ar")), nodes: []string{"n0 a/r 8 used=7", "n1 b/s 8 used=7"},
			want: []string{"decode-0 InsufficientCapacity"},
			why:  "needs 2 pods x 1 nvidia.com/gpu in one rack; a/r holds 1 of 2 (1 of 2 nvidia.com/gpu free); 1 other rack holds no more",
		},
		"required over zones, preferred over racks": {
			graph: spreadGraph(none, spreadComponent(rack, 4, 2, zone, rack)),
			nodes: []string{"n0 a/q 8", "n1 a/r 8", "n2 b/s 8", "n3 b/t 8"},
			want:  []string{"decode-0 a/q: n0 n0", "decode-1 b/s: n2 n2", "decode-2 a/r: n1 n1", "decode-3 b/t: n3 n3"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := PlanGraph(clusterOf(test.graph.Levels, test.nodes...), test.graph, Options{})
			if diff := cmp.Diff(test.want, summary(r)); diff != "" {
				t.Error(diff)
			}
			if test.why == "" {
				return
			}
			if diff := cmp.Diff([]string{test.why}, refusals(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSpreadReturns: what a zone lost returns there, and not to the domain where another replica was before it.
func TestSpreadReturns(t *testing.T) {
	c := spreadComponent(1, 1, 2, 0, none, "ar")
	c.Waiting[0].Hint = topology.Path{"a", "r"}
	r := PlanGraph(clusterOf(levels("zone", "rack"), "n0 a/r 8", "n1 b/s 8"), spreadGraph(none, c), Options{})
	if diff := cmp.Diff([]string{"decode-0 b/s: n1 n1"}, summary(r)); diff != "" {
		t.Error(diff)
	}
}

// TestSpreadTogether: the replicas that begin together take all zones, or wait together.
func TestSpreadTogether(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []string
		want  []string
	}{
		"spread":     {[]string{"n0 a/r 8", "n1 b/s 4"}, []string{"decode-0 b/s: n1 n1", "decode-1 a/r: n0 n0", "decode-2 b/s: n1 n1"}},
		"not spread": {[]string{"n0 a/r 8", "n1 b/s 4 used=3"}, []string{"decode-0 InsufficientCapacity", "decode-1 InsufficientCapacity", "decode-2 InsufficientCapacity"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := spreadComponent(1, 3, 2, 0, none)
			c.MinAvailable = 3
			r := PlanGraph(clusterOf(levels("zone", "rack"), test.nodes...), spreadGraph(none, c), Options{})
			if diff := cmp.Diff(test.want, summary(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSpreadPreempts: capacity is freed where the spread lets the replica go.
func TestSpreadPreempts(t *testing.T) {
	ls := levels("zone", "rack")
	for name, test := range map[string]struct {
		at   string
		want string
	}{"to b": {"ar", "b/s"}, "to a": {"bs", "a/r"}} {
		t.Run(name, func(t *testing.T) {
			g := spreadGraph(none, spreadComponent(1, 1, 2, 0, none, test.at))
			g.Priority, g.Preempts = 10, true
			r := PlanGraph(clusterOf(ls, "n0 a/r 2 used=2", "n1 b/s 2 used=2"), g, Options{})
			if got := r.Replicas[0].Domain.String(); got != test.want || r.Replicas[0].Preempts == nil {
				t.Errorf("in %q, preempts %v", got, r.Replicas[0].Preempts)
			}
		})
	}
}

// TestSpreadIsUnmet: any node may change what a refused replica is compared with.
func TestSpreadIsUnmet(t *testing.T) {
	g := spreadGraph(none, spreadComponent(1, 1, 2, 0, none, "ar"))
	r := PlanGraph(clusterOf(g.Levels, "n0 a/r 8", "n1 b/s 8 used=7"), g, Options{})
	if UnmetOf(g, &r) != nil {
		t.Error("only some nodes matter")
	}
}

// TestSpreadMark: domains are alike only if each component has as many replicas in the one as in the other.
func TestSpreadMark(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, "n0 a/r 8", "n1 b/s 8", "n2 c/t 8", "n3 d/u 8")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		spreadComponent(none, 1, 2, none, 1, "bs", "du"), spreadComponent(none, 1, 2, none, 1, "ct", "du"),
	}}
	p := newPlanner(c, g, Options{})
	s := newSearch(c, p.tree, p.options)
	s.open = map[*spreading]int{}
	for si, one := range p.components {
		for _, sp := range p.spreadings(si, one) {
			s.open[sp] = 1
		}
	}
	seen := map[uint64]topology.DomainID{}
	for _, d := range p.tree.Domains(1, topology.Root) {
		mark, known := s.spreadMark(0, d)
		if other, is := seen[mark]; is || !known {
			t.Errorf("%s has the mark of %s, known %v", p.tree.Path(d), p.tree.Path(other), known)
		}
		seen[mark] = d
	}
}

// TestSpreadKeepsTheSkew: on small random clusters, whatever is placed keeps the skew, and a replica that is refused has no domain that keeps it.
func TestSpreadKeepsTheSkew(t *testing.T) {
	placed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		level := rapid.IntRange(0, depth-1).Draw(t, "spread")
		n := rapid.IntRange(1, 3).Draw(t, "pods")
		packed := none
		if n > 1 && rapid.Bool().Draw(t, "packed") {
			packed = rapid.IntRange(level, depth-1).Draw(t, "pack")
		}
		s := componentOf("s", packed, none, rapid.IntRange(1, 4).Draw(t, "replicas"), n, need{1, 1}.shape())
		s.Spread = &Spread{Required: level, Preferred: none}
		s.MinAvailable = rapid.IntRange(1, len(s.Waiting)).Draw(t, "together")
		g := Demand{Levels: w.levels, Required: none, Preferred: none, Components: []Component{s}}
		if level > 0 && rapid.Bool().Draw(t, "graph") {
			g.Required = rapid.IntRange(0, level-1).Draw(t, "graph level")
		}
		c := w.cluster(inOrder(len(w.paths)))
		r := PlanGraph(c, g, ample)
		counts, some := map[string]int{}, false
		for _, one := range r.Replicas {
			if one.Refusal == nil {
				counts[one.Domain.Truncate(level).String()]++
				placed, some = placed+1, true
			} else {
				refused++
			}
		}
		if some {
			w.checkSkew(t, r.Domain, level, &s, counts)
		}
		w.checkGraph(t, &g, &r)
		if base := w.spreads(&g, level, s.MinAvailable); base != (r.Replicas[0].Refusal == nil) {
			t.Fatalf("placed %v, possible %v", r.Replicas[0].Refusal == nil, base)
		}
	})
	t.Logf("placed %d, refused %d", placed, refused)
}

// checkSkew compares the numbers of replicas in all domains that count.
func (w *world) checkSkew(t *rapid.T, within topology.Path, level int, s *Component, counts map[string]int) {
	t.Helper()
	for _, d := range w.eligible(within, level, s) {
		for at, n := range counts {
			if n > counts[d.String()]+1 {
				t.Fatalf("%d replicas in %s and %d in %s", n, at, counts[d.String()], d)
			}
		}
	}
}

// eligible are the domains of a level that hold a replica on an empty cluster.
func (w *world) eligible(within topology.Path, level int, s *Component) (list []topology.Path) {
	b := &brute{w: w}
	for _, d := range b.domains(level, within) {
		if w.brute(&Group{Required: none, Groups: []*Group{{Required: s.Required, Within: d, Pods: s.Waiting[0].Pods}}}) {
			list = append(list, d)
		}
	}
	return list
}

// spreads says by brute force whether the first n replicas of a component can be placed in one domain of the graph's level with a skew of 1 at most.
func (w *world) spreads(g *Demand, level, n int) bool {
	s := &g.Components[0]
	b := &brute{w: w}
	for _, graph := range b.domains(g.Required, nil) {
		domains := w.eligible(graph, level, s)
		if w.assigns(s, domains, make([]int, len(domains)), n, nil) {
			return true
		}
	}
	return false
}

// assigns tries to give each of n replicas one of the domains.
func (w *world) assigns(s *Component, domains []topology.Path, counts []int, n int, groups []*Group) bool {
	if n == 0 {
		most := slices.Max(append([]int{0}, counts...))
		for _, k := range counts {
			if most > k+1 {
				return false
			}
		}
		return w.brute(&Group{Required: none, Groups: groups})
	}
	for i, d := range domains {
		counts[i]++
		one := &Group{Name: fmt.Sprint(n), Required: s.Required, Within: d, Pods: s.Waiting[n-1].Pods}
		if w.assigns(s, domains, counts, n-1, append(slices.Clone(groups), one)) {
			return true
		}
		counts[i]--
	}
	return false
}
