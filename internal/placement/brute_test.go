// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestMain keeps property runs short; TRELLIS_CHECKS=10000 go test runs the full number.
func TestMain(m *testing.M) {
	checks := os.Getenv("TRELLIS_CHECKS")
	if checks == "" {
		checks = "400"
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// world is a small random cluster in plain numbers: what the brute force works on.
type world struct {
	levels topology.Levels
	paths  []topology.Path
	gpu    []int
	cpu    []int
}

const (
	mostNodes = 12
	depth     = 3
)

func drawWorld(t *rapid.T) world {
	w := world{levels: levels("zone", "block", "rack")}
	for i := range rapid.IntRange(1, mostNodes).Draw(t, "nodes") {
		path := topology.Path{}
		for l := range rapid.SampledFrom([]int{depth, depth, depth, depth, depth, 2, 1, 0}).Draw(t, fmt.Sprintf("labels%d", i)) {
			path = append(path, fmt.Sprintf("%c%d", 'a'+l, rapid.IntRange(0, 1).Draw(t, fmt.Sprintf("label%d-%d", i, l))))
		}
		w.paths = append(w.paths, path)
		w.gpu = append(w.gpu, rapid.IntRange(0, 4).Draw(t, fmt.Sprintf("gpu%d", i)))
		w.cpu = append(w.cpu, rapid.IntRange(0, 4).Draw(t, fmt.Sprintf("cpu%d", i)))
	}
	return w
}

func (w *world) cluster(order []int) *topology.Cluster {
	c := topology.NewCluster()
	for _, i := range order {
		path := w.paths[i].String()
		if path == "" {
			path = "-"
		}
		c.SetNode(nodeOf(w.levels, fmt.Sprintf("n%02d %s %d cpu=%d", i, path, w.gpu[i], w.cpu[i])))
	}
	return c
}

func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// drawGroup draws a group of groups with at most left pods.
func drawGroup(t *rapid.T, name string, within, nested int, left *int) *Group {
	g := &Group{Name: name, Required: none, Preferred: none}
	if rapid.Bool().Draw(t, name+" constrained") && within < depth-1 {
		g.Required = rapid.IntRange(within+1, depth-1).Draw(t, name+" required")
	}
	if rapid.IntRange(0, 3).Draw(t, name+" soft") == 0 {
		g.Preferred = rapid.IntRange(0, depth-1).Draw(t, name+" preferred")
	}
	for k := range rapid.IntRange(0, 2).Draw(t, name+" shapes") {
		n := rapid.IntRange(1, 3).Draw(t, fmt.Sprintf("%s pods%d", name, k))
		n = min(n, *left)
		*left -= n
		s := need{rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("%s gpu%d", name, k)), rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("%s cpu%d", name, k))}
		g.Pods = append(g.Pods, pods(name+"-"+strconv.Itoa(k), n, s.shape())...)
	}
	if nested > 0 {
		for k := range rapid.IntRange(0, 2).Draw(t, name+" groups") {
			g.Groups = append(g.Groups, drawGroup(t, name+"."+strconv.Itoa(k), max(g.Required, within), nested-1, left))
		}
	}
	return g
}

// need is what one pod asks for.
type need struct{ gpu, cpu int }

var shapes = map[need]*topology.Shape{}

func (n need) shape() *topology.Shape {
	if shapes[n] == nil {
		shapes[n] = topology.ShapeOf(podOf(map[string]string{gpu: strconv.Itoa(n.gpu), "cpu": strconv.Itoa(n.cpu)}))
	}
	return shapes[n]
}

func needOf(s *topology.Shape) need {
	var n need
	for _, r := range s.Requests() {
		if r.Name == gpu {
			n.gpu = int(r.Amount)
		} else {
			n.cpu = int(r.Amount / 1000)
		}
	}
	return n
}

// brute answers by trying everything, sharing no code with the planner: for each group each path of its level, for each pod each node.
type brute struct {
	w        *world
	gpu, cpu []int
	// on are the nodes of groups whose pods are apart.
	on map[*Group]map[int]bool
}

type item struct {
	group  *Group
	pod    *Pod
	within topology.Path
}

func (w *world) brute(g *Group) bool {
	b := &brute{w: w, gpu: append([]int(nil), w.gpu...), cpu: append([]int(nil), w.cpu...), on: map[*Group]map[int]bool{}}
	return b.solve([]item{{group: g}})
}

func (b *brute) solve(items []item) bool {
	if len(items) == 0 {
		return true
	}
	it, rest := items[0], items[1:]
	if it.pod != nil {
		return b.pod(it, rest)
	}
	g := it.group
	if len(g.Within) > len(it.within) {
		it.within = g.Within
	}
	for _, p := range b.domains(g.Required, it.within) {
		inside := make([]item, 0, len(rest)+len(g.Pods)+len(g.Groups))
		for _, sub := range g.Groups {
			inside = append(inside, item{group: sub, within: p})
		}
		for i := range g.Pods {
			inside = append(inside, item{group: g, pod: &g.Pods[i], within: p})
		}
		if b.solve(append(inside, rest...)) {
			return true
		}
	}
	return false
}

func (b *brute) domains(level int, within topology.Path) []topology.Path {
	if level < len(within) {
		return []topology.Path{within}
	}
	var list []topology.Path
	seen := map[string]bool{}
	for _, p := range b.w.paths {
		if len(p) > level && within.Contains(p) && !seen[p[:level+1].String()] {
			seen[p[:level+1].String()] = true
			list = append(list, p[:level+1])
		}
	}
	return list
}

// used lists the groups of apart pods that have one on a node.
func (b *brute) used(node int) (names []string) {
	for g, on := range b.on {
		if g.Apart && on[node] {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (b *brute) pod(it item, rest []item) bool {
	n := needOf(it.pod.Shape)
	tried := map[string]bool{}
	for i, p := range b.w.paths {
		// Two nodes with the same path and the same capacity are the same.
		key := fmt.Sprint(p, b.gpu[i], b.cpu[i], b.used(i))
		if !it.within.Contains(p) || it.group.Apart && b.on[it.group][i] || tried[key] || b.gpu[i] < n.gpu || b.cpu[i] < n.cpu {
			continue
		}
		if tried[key] = true; b.on[it.group] == nil {
			b.on[it.group] = map[int]bool{}
		}
		b.on[it.group][i] = true
		b.gpu[i] -= n.gpu
		b.cpu[i] -= n.cpu
		if b.solve(rest) {
			return true
		}
		b.gpu[i] += n.gpu
		b.cpu[i] += n.cpu
		b.on[it.group][i] = false
	}
	return false
}

// check fails when an answer breaks a rule: over capacity, split, outside a required domain, a pod missing.
func (w *world) check(t *rapid.T, g *Group, r *GroupResult) {
	gpuLeft, cpuLeft := append([]int(nil), w.gpu...), append([]int(nil), w.cpu...)
	var walk func(g *Group, r *GroupResult, within topology.Path)
	walk = func(g *Group, r *GroupResult, within topology.Path) {
		if len(r.Pods) != len(g.Pods) || len(r.Groups) != len(g.Groups) {
			t.Fatalf("%s: %d pods, %d groups answered, want %d and %d", g.Name, len(r.Pods), len(r.Groups), len(g.Pods), len(g.Groups))
		}
		if !within.Contains(r.Domain) || r.Domain.Level() < g.Required {
			t.Fatalf("%s in %q, outside of %q or above level %d", g.Name, r.Domain, within, g.Required)
		}
		on := map[string]bool{}
		for i, p := range r.Pods {
			if on[p.Node] && g.Apart {
				t.Fatalf("two pods of %s on %s", g.Name, p.Node)
			}
			on[p.Node] = true
			n, err := strconv.Atoi(p.Node[1:])
			if err != nil || !r.Domain.Contains(w.paths[n]) {
				t.Fatalf("%s on %s, not in %q", p.Name, p.Node, r.Domain)
			}
			want := needOf(g.Pods[i].Shape)
			gpuLeft[n] -= want.gpu
			cpuLeft[n] -= want.cpu
		}
		for i := range g.Groups {
			walk(g.Groups[i], r.Groups[i], r.Domain)
		}
	}
	walk(g, r, nil)
	for i := range gpuLeft {
		if gpuLeft[i] < 0 || cpuLeft[i] < 0 {
			t.Fatalf("node n%02d over capacity: gpu %d cpu %d left", i, gpuLeft[i], cpuLeft[i])
		}
	}
}

func TestFoundExactlyWhenAPackingExists(t *testing.T) {
	placed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		left := 8
		g := drawGroup(t, "g", none, 2, &left)
		c := w.cluster(inOrder(len(w.paths)))
		r, why := PlanGroup(c, w.levels, nil, g, Options{Budget: 20_000_000})
		want := w.brute(g)
		if got := why == nil; got != want {
			t.Fatalf("placed %v, a packing exists: %v", got, want)
		}
		if why != nil {
			refused++
			if m := why.Message(); m == "" || len(m) > MaxMessage {
				t.Fatalf("message %q", m)
			}
			return
		}
		placed++
		w.check(t, g, r)
	})
	t.Logf("placed %d, refused %d", placed, refused)
}
