// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// TestDraw shows what each flag leaves of the same cluster; what is summed up adds up in all of them.
func TestDraw(t *testing.T) {
	for name, tc := range map[string]struct {
		draw    Draw
		prepare func(*world)
	}{
		"draw-level":      {Draw{Level: "rack"}, func(w *world) { w.addGraph(packed, chatRunning) }},
		"draw-depth":      {Draw{Depth: 1}, func(w *world) { w.addGraph(packed, chatRunning) }},
		"draw-free":       {Draw{Free: 30}, func(w *world) { w.addGraph(packed, chatRunning); w.addPod("a-1-0", "5") }},
		"draw-free-hosts": {Draw{Free: 8, Level: "host"}, func(w *world) { w.addGraph(packed, chatRunning); w.addPod("b-2-0", "5") }},
		"draw-free-none": {Draw{Free: 8, Level: "host"}, func(w *world) {
			w.addGraph(packed, chatRunning)
			for _, n := range w.Nodes {
				w.addPod(n.Name, "1")
			}
		}},
		"draw-free-too-much": {Draw{Free: 1000}, func(w *world) { w.addGraph(packed, chatRunning) }},
		"draw-other-level":   {Draw{Level: "row"}, func(w *world) { w.Topologies = append(w.Topologies, flat(nil)) }},
		"draw-no-graphs":     {Draw{}, func(w *world) { w.addPod("a-1-0", "5"); w.node("b-0-0").Spec.Unschedulable = true }},
		"draw-tainted": {Draw{Level: "host", Free: 1}, func(w *world) { // without deployments the taint of the resource itself counts as tolerated
			for _, n := range w.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: gpus, Value: "present", Effect: corev1.TaintEffectNoSchedule}}
			}
			w.node("a-0-0").Spec.Taints = []corev1.Taint{{Key: "repair", Effect: corev1.TaintEffectNoExecute}}
		}},
		"draw-no-topology":  {Draw{}, func(w *world) { w.Topologies = nil }},
		"draw-1000-hosts":   {Draw{}, func(w *world) { w.Nodes = newWorld(w.T, 4, 10, 25).Nodes }},
		"draw-many-at-once": {Draw{Level: "rack", Depth: 2, Free: 1}, func(w *world) { w.addGraph(packed, chatRunning) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 3, 4)
			tc.prepare(w)
			report, err := BuildAs(w.scene(), tc.draw)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/"+name+".golden", report.Text(text.Page{}))
			for i := range report.Trees {
				addsUp(t, report.Trees[i].Cluster)
			}
		})
	}
	w := newWorld(t, 1, 1, 1)
	if _, err := BuildAs(w.scene(), Draw{Level: "row"}); err == nil || err.Error() != "level row not found; there are: host, rack, zone" {
		t.Errorf("an unknown level: %v", err)
	}
}

func addsUp(t *testing.T, d *Domain) {
	t.Helper()
	if len(d.Children)+len(d.Others) == 0 {
		return
	}
	sum := &Amount{}
	for _, child := range d.Children {
		addsUp(t, child)
		sum = sum.add(child.Amount)
	}
	for _, o := range d.Others {
		sum = sum.add(o.Amount)
	}
	if *sum != *d.Amount {
		t.Errorf("%s %s: %+v, and its parts %+v", d.Level, d.Name, *d.Amount, *sum)
	}
}

// TestWidths: on a terminal no line is longer than the terminal is wide.
func TestWidths(t *testing.T) {
	for _, columns := range []int{80, 100, 160} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			w := newWorld(t, 2, 3, 4)
			w.addGraph(strings.ReplaceAll(packed, "VllmWorker", "PrefillWorkerOfTheLargeModel"), strings.ReplaceAll(chatRunning, "vllmworker", "prefillworkerofthelargemodel"))
			w.addGraph(small, smallRunning)
			w.node("a-1-2").Spec.Unschedulable = true
			page := text.Page{Columns: columns, Color: true}
			for i := range 3 {
				w.Pods[i].Spec.NodeName = "a-0-0" // many on one host
			}
			report := Build(w.scene())
			got := report.Text(page)
			for line := range strings.Lines(got) {
				if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			plain := report.Text(text.Page{Columns: columns})
			golden.Check(t, fmt.Sprintf("testdata/width-%d.golden", columns), plain)
			if !strings.Contains(got, "\x1b[33m(cordoned)\x1b[0m") || strings.Contains(plain, "\x1b") {
				t.Error("want colours on a page that has them, and on no other")
			}
		})
	}
}
