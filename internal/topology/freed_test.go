// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// What frees something of a node is told once, whatever it is; what is put back, moved in a circle or added is not.
func TestFreed(t *testing.T) {
	one := amounts{gpu: "1", "cpu": "1"}
	port := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	shape := ShapeOf(makePod("p", "", one))
	for name, tc := range map[string]struct {
		do   func(*Cluster)
		want []string
	}{
		"nothing":          {func(*Cluster) {}, nil},
		"a pod is deleted": {func(c *Cluster) { c.DeletePod("ns/p1") }, []string{"n1"}},
		"a pod ends": {func(c *Cluster) {
			c.SetPod(makePod("p1", "n1", one, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		}, []string{"n1"}},
		"a pod needs less":      {func(c *Cluster) { c.SetPod(makePod("p1", "n1", amounts{gpu: "1"}, port)) }, []string{"n1"}},
		"a pod needs other":     {func(c *Cluster) { c.SetPod(makePod("p1", "n1", amounts{gpu: "2"}, port)) }, []string{"n1"}},
		"a pod needs more":      {func(c *Cluster) { c.SetPod(makePod("p1", "n1", amounts{gpu: "2", "cpu": "1"}, port)) }, nil},
		"a pod gives a port up": {func(c *Cluster) { c.SetPod(makePod("p1", "n1", one)) }, []string{"n1"}},
		"a pod gives a rule up": {func(c *Cluster) { c.SetPod(makePod("p2", "n2", one)) }, []string{"n2"}},
		"a pod is added":        {func(c *Cluster) { c.SetPod(makePod("p3", "n1", one)) }, nil},
		"a pod starts to leave": {func(c *Cluster) {
			c.SetPod(makePod("p1", "n1", one, port, func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }))
		}, nil},
		"a reservation ends":             {func(c *Cluster) { c.Forget("ns/r") }, []string{"n1"}},
		"a reservation moves":            {func(c *Cluster) { c.Assume("ns/r", "n2", shape) }, []string{"n1"}},
		"a reserved pod is bound there":  {func(c *Cluster) { c.SetPod(makePod("r", "n1", one)) }, nil},
		"a reserved pod is bound beside": {func(c *Cluster) { c.SetPod(makePod("r", "n2", one)) }, []string{"n1"}},
		"a reservation comes back":       {func(c *Cluster) { c.Forget("ns/r"); c.Assume("ns/r", "n1", shape) }, nil},
		"a node gets more":               {func(c *Cluster) { c.SetNode(makeNode("n2", nil, amounts{gpu: "9"})) }, []string{"n2"}},
		"a node is the same":             {func(c *Cluster) { c.SetNode(makeNode("n2", nil, amounts{gpu: "8", "cpu": "8"})) }, nil},
		"a node is deleted":              {func(c *Cluster) { c.DeleteNode("n2") }, []string{"n2"}},
		"a node is reserved":             {func(c *Cluster) { c.ReserveNode("n2", "x") }, nil},
		"a node is not reserved any more": {func(c *Cluster) {
			c.ReserveNode("n2", "x")
			c.Freed()
			c.ReserveNode("n2", "")
		}, []string{"n2"}},
		"a node is opened for a plan": {func(c *Cluster) {
			c.ReserveNode("n2", "x")
			c.Freed()
			c.ReserveNode("n2", "")
			c.ReserveNode("n2", "x")
		}, nil},
		"a plan that is dropped": {func(c *Cluster) {
			c.Begin()
			c.Assume("new", "n2", shape)
			c.DeletePod("ns/p1")
			c.Forget("ns/r")
			c.Rollback()
		}, nil},
		"a plan that is kept": {func(c *Cluster) {
			c.Begin()
			c.Forget("ns/r")
			c.Assume("ns/r", "n1", shape)
			c.Assume("new", "n2", shape)
			c.Assume("new", "n1", shape)
			c.DeletePod("ns/p2")
			c.Commit()
		}, []string{"n2"}},
		"what is tried by a search": {func(c *Cluster) {
			v := c.Tree(nil, nil).View(shape)
			v.Take(0, 2)
			v.Give(0, 2)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := NewCluster(), 0
			for _, node := range []string{"n1", "n2"} {
				c.SetNode(makeNode(node, nil, amounts{gpu: "8", "cpu": "8"}))
			}
			c.SetPod(makePod("p1", "n1", one, port))
			c.SetPod(makePod("p2", "n2", one, onePerHost))
			c.Assume("ns/r", "n1", shape)
			c.Freed()
			c.OnFreed = func() { calls++ }
			tc.do(c)
			if diff := cmp.Diff(tc.want, c.Freed()); diff != "" {
				t.Errorf("freed (-want +got):\n%s", diff)
			}
			if len(tc.want) > 0 && calls == 0 {
				t.Error("nobody was told")
			}
			if again := c.Freed(); len(again) > 0 {
				t.Errorf("told twice: %v", again)
			}
		})
	}
}

// Whenever a pod fits a node that did not, the node is freed, whatever happened: no one has to guess it from events.
func TestWhereSomethingFitsIsFreed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		shapes := []*Shape{ShapeOf(drawPod(t, 0, "")), ShapeOf(drawPod(t, 0, "")), ShapeOf(makePod("p", "", amounts{gpu: "1"}, onePerHost))}
		fits := func() map[string]int {
			out := map[string]int{}
			tree := c.Tree(nil, nil)
			for i, s := range shapes {
				for _, name := range c.NodeNames() {
					n, _ := c.Node(name)
					out[name+"/"+strconv.Itoa(i)] = tree.View(s).NodeFit(n)
				}
			}
			return out
		}
		node := func() string { return "n" + strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "node")) }
		pod := func() string { return "ns/p" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "pod")) }
		depth := 0
		before := fits()
		t.Repeat(map[string]func(*rapid.T){
			"set node":    func(t *rapid.T) { c.SetNode(drawNode(t, rapid.IntRange(0, 3).Draw(t, "node"))) },
			"delete node": func(*rapid.T) { c.DeleteNode(node()) },
			"set pod":     func(t *rapid.T) { c.SetPod(drawPod(t, rapid.IntRange(0, 5).Draw(t, "pod"), node())) },
			"delete pod":  func(*rapid.T) { c.DeletePod(pod()) },
			"assume":      func(t *rapid.T) { c.Assume(pod(), node(), ShapeOf(drawPod(t, 0, ""))) },
			"forget":      func(*rapid.T) { c.Forget(pod()) },
			"reserve":     func(t *rapid.T) { c.ReserveNode(node(), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "who")) },
			"begin":       func(*rapid.T) { c.Begin(); depth++ },
			"commit": func(t *rapid.T) {
				if depth == 0 {
					t.Skip()
				}
				depth--
				c.Commit()
			},
			"rollback": func(t *rapid.T) {
				if depth == 0 {
					t.Skip()
				}
				depth--
				c.Rollback()
			},
			"ask": func(t *rapid.T) {
				if depth > 0 {
					t.Skip()
				}
				freed, now := c.Freed(), fits()
				for key, n := range now {
					name, _, _ := strings.Cut(key, "/")
					if n > before[key] && !slices.Contains(freed, name) {
						t.Fatalf("%s fits %d, before %d; freed are %v", key, n, before[key], freed)
					}
				}
				before = now
			},
		})
	})
}
