// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// image is everything a cluster answers, in plain values: domain -> sizes and fits per tree and shape.
type image map[string]string

func shot(c *Cluster, trees []Levels, selectors []map[string]string, shapes []*Shape) image {
	out := image{"nodes": fmt.Sprint(c.NodeNames(), c.Size())}
	for ti, levels := range trees {
		t := c.Tree(levels, selectors[ti])
		var walk func(d DomainID)
		walk = func(d DomainID) {
			line := fmt.Sprintf("size %d", t.Size(d))
			for _, n := range t.Nodes(d) {
				line += " " + c.NodeName(n)
			}
			gpus, counts := t.Allocatable(d, gpu)
			line += fmt.Sprintf(" allocatable %d %t", gpus, counts)
			for _, s := range shapes {
				v := t.View(s)
				line += fmt.Sprintf(" fit %d big %d suiting %d", v.Fit(d), v.Biggest(d), v.Suiting(d))
				if len(s.Requests()) > 0 {
					line += fmt.Sprintf(" free %d", v.Free(d, 0))
				}
				for _, n := range t.Nodes(d) {
					line += fmt.Sprintf(",%d", v.NodeFit(n))
				}
			}
			out[fmt.Sprintf("%d:%s", ti, t.Path(d))] = line
			for _, child := range t.Children(d) {
				walk(child)
			}
		}
		walk(Root)
		for level := range levels {
			line := ""
			for _, d := range t.Domains(level, Root) {
				line += t.Path(d).String() + " "
			}
			for _, s := range shapes {
				line += classes(t, t.View(s), level)
			}
			out[fmt.Sprintf("%d:level %d", ti, level)] = line
		}
	}
	return out
}

// classes writes down the index of a level: the first member of each class in the cluster and in each domain of the broadest level.
func classes(t *Tree, v *View, level int) string {
	var lines []string
	list := v.Classes(level)
	for i := range list {
		if c := &list[i]; c.Domains > 0 {
			line := fmt.Sprintf(" %d/%d x%d:", c.Fit, c.Biggest, c.Domains)
			for _, in := range append([]DomainID{Root}, t.Domains(0, Root)...) {
				v.Members(level, c, in, func(d DomainID) bool {
					line += t.Path(d).String() + ","
					return true
				})
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// history is the objects as an API server would have them; a cluster can be built afresh from it.
type history struct {
	nodes map[string]*corev1.Node
	bound map[string]*corev1.Pod
	held  map[string]held2
}

type held2 struct {
	node  string
	shape *Shape
}

func (h *history) clone() history {
	return history{maps.Clone(h.nodes), maps.Clone(h.bound), maps.Clone(h.held)}
}

func (h *history) fresh(reverse bool) *Cluster {
	c := NewCluster()
	order := func(names []string) []string {
		slices.Sort(names)
		if reverse {
			slices.Reverse(names)
		}
		return names
	}
	for _, name := range order(slices.Collect(maps.Keys(h.bound))) {
		c.SetPod(h.bound[name])
	}
	for _, name := range order(slices.Collect(maps.Keys(h.nodes))) {
		c.SetNode(h.nodes[name])
	}
	for _, name := range order(slices.Collect(maps.Keys(h.held))) {
		c.Assume(name, h.held[name].node, h.held[name].shape)
	}
	return c
}

func drawNode(t *rapid.T, i int) *corev1.Node {
	labels := at(rapid.SampledFrom([]string{"a", "b", "", "a"}).Draw(t, "zone"), rapid.SampledFrom([]string{"1", "2", "3", ""}).Draw(t, "rack"))
	if rapid.Bool().Draw(t, "pool") {
		labels["pool"] = "x"
	}
	a := amounts{gpu: strconv.Itoa(rapid.IntRange(0, 8).Draw(t, "gpu")), "cpu": strconv.Itoa(rapid.IntRange(0, 8).Draw(t, "cpu"))}
	if rare := rapid.SampledFrom([]string{"", "", "example.com/a", "example.com/b"}).Draw(t, "rare"); rare != "" {
		a[rare] = strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "amount"))
	}
	return makeNode("n"+strconv.Itoa(i), labels, a, func(n *corev1.Node) {
		n.Spec.Unschedulable = rapid.IntRange(0, 5).Draw(t, "cordon") == 0
		if rapid.IntRange(0, 5).Draw(t, "taint") == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}}
		}
		if rapid.Bool().Draw(t, "declares") {
			n.Status.DeclaredFeatures = []string{restartAll}
		}
		if rapid.IntRange(0, 5).Draw(t, "down") == 0 {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
	})
}

func drawPod(t *rapid.T, i int, node string) *corev1.Pod {
	a := amounts{gpu: strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "gpu")), "cpu": strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "cpu"))}
	if rare := rapid.SampledFrom([]string{"", "", "example.com/a", "example.com/b", "example.com/nowhere"}).Draw(t, "rare"); rare != "" {
		a[rare] = "1"
	}
	return makePod("p"+strconv.Itoa(i), node, a, func(p *corev1.Pod) {
		switch rapid.IntRange(0, 8).Draw(t, "special") {
		case 0:
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		case 1:
			onePerHost(p)
		case 2:
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		case 3:
			p.Spec.NodeSelector = map[string]string{"pool": "x"}
		case 4:
			restartsAll(p)
		}
	})
}

func onePerHost(p *corev1.Pod) {
	p.Labels = map[string]string{"app": "x"}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname}
	term.LabelSelector = labelSelector(p.Labels)
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

// TestIncrementalEqualsFresh: after any history of events, transactions and questions in between, the trees answer as if built afresh
// from the objects that are left, whatever order those came in.
func TestIncrementalEqualsFresh(t *testing.T) {
	trees := []Levels{zoneRack, {{"rack", "r"}}, nil, zoneRack}
	selectors := []map[string]string{nil, nil, nil, {"pool": "x"}}
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		now := history{map[string]*corev1.Node{}, map[string]*corev1.Pod{}, map[string]held2{}}
		var saved []history
		var served []string
		ignored := false
		shapes := []*Shape{ShapeOf(drawPod(t, 0, "")), ShapeOf(drawPod(t, 0, "")), ShapeOf(drawPod(t, 0, ""))}
		node := func() string { return "n" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "node")) }
		pod := func() int { return rapid.IntRange(0, 7).Draw(t, "pod") }
		forget := func(id string) { delete(now.bound, id); delete(now.held, id) }
		t.Repeat(map[string]func(*rapid.T){
			"set node": func(t *rapid.T) {
				n := drawNode(t, rapid.IntRange(0, 5).Draw(t, "node"))
				c.SetNode(n)
				now.nodes[n.Name] = n
			},
			"delete node": func(*rapid.T) {
				n := node()
				c.DeleteNode(n)
				delete(now.nodes, n)
			},
			"bind": func(t *rapid.T) {
				p := drawPod(t, pod(), node())
				if _, held := now.held[PodID(p)]; held {
					return // a reserved pod that is bound may move another's reservation: TestReservationSwap
				}
				c.SetPod(p)
				now.bound[PodID(p)] = p
			},
			"finish": func(*rapid.T) {
				p := makePod("p"+strconv.Itoa(pod()), "n0", nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
				c.SetPod(p)
				forget(PodID(p))
			},
			"delete pod": func(*rapid.T) {
				id := "ns/p" + strconv.Itoa(pod())
				c.DeletePod(id)
				forget(id)
			},
			"assume": func(t *rapid.T) {
				p := drawPod(t, pod(), node())
				s := ShapeOf(p)
				c.Assume(PodID(p), p.Spec.NodeName, s)
				forget(PodID(p))
				now.held[PodID(p)] = held2{p.Spec.NodeName, s}
			},
			"forget": func(*rapid.T) {
				id := "ns/p" + strconv.Itoa(pod())
				c.Forget(id)
				delete(now.held, id)
			},
			"begin": func(*rapid.T) { c.Begin(); saved = append(saved, now.clone()) },
			"commit": func(t *rapid.T) {
				if len(saved) == 0 {
					t.Skip()
				}
				c.Commit()
				saved = saved[:len(saved)-1]
			},
			"rollback": func(t *rapid.T) {
				if len(saved) == 0 {
					t.Skip()
				}
				c.Rollback()
				now, saved = saved[len(saved)-1], saved[:len(saved)-1]
			},
			"serve": func(t *rapid.T) {
				served = nil
				for _, name := range []string{"example.com/a", "example.com/nowhere", gpu} {
					if rapid.Bool().Draw(t, name) {
						served = append(served, name)
					}
				}
				c.Serve(served)
			},
			"upgrade": func(*rapid.T) {
				ignored = !ignored
				c.IgnoreDeclaredFeatures(ignored)
			},
			"ask": func(*rapid.T) { shot(c, trees, selectors, shapes) },
			"": func(t *rapid.T) {
				if len(saved) > 0 {
					return
				}
				got := shot(c, trees, selectors, shapes)
				for _, reverse := range []bool{false, true} {
					fresh := now.fresh(reverse)
					fresh.Serve(served)
					fresh.IgnoreDeclaredFeatures(ignored)
					if diff := cmp.Diff(shot(fresh, trees, selectors, shapes), got); diff != "" {
						t.Fatalf("fresh tree (-) against incremental tree (+):\n%s", diff)
					}
				}
			},
		})
	})
}
