// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strings"
	"testing"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// crowded is a cluster of 240 hosts with 96 placed and 104 waiting graphs.
func crowded(t *testing.T) *world {
	w := newWorld(t, 4, 6, 10)
	for i := range 200 {
		name, namespace := fmt.Sprintf("g-%d", i), fmt.Sprintf("team-%d", i%7)
		manifest := strings.NewReplacer("{name: plain, namespace: team-b}", fmt.Sprintf("{name: %s, namespace: %s}", name, namespace),
			"spec:\n", "spec:\n  topologyConstraint: {topologyProfile: hall, packDomain: rack}\n").Replace(plain)
		if i >= 104 {
			w.addGraph(manifest, fmt.Sprintf("%s-worker-0 %c-%d-%d", name, 'a'+i%3, i/3%6, i/18%10))
			continue
		}
		dgd := w.addGraph(manifest, name+"-worker-0 -")
		setCondition(dgd, nvidiav1beta1.ConditionReady, false, "insufficient_capacity", "Resources not ready")
		reason := "InsufficientCapacity"
		if i%10 == 0 {
			reason = "NeverFits"
		}
		setCondition(dgd, nvidiav1beta1.ConditionPlaced, false, reason, "0 of 1 packed replicas are placed. Worker-0: needs 1 pod x 1 nvidia.com/gpu in one rack")
	}
	return w
}

// TestFoldsToAScreen: 200 graphs take a screen, at any width, and what is folded is counted. Wide, and with flags that choose what is
// drawn, everything is shown.
func TestFoldsToAScreen(t *testing.T) {
	s := crowded(t).scene()
	report, err := BuildAs(s, Draw{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{40, text.Rows, 80} {
		for _, columns := range []int{80, 100, 160} {
			got := report.Text(text.Page{Columns: columns, Rows: rows})
			if lines := strings.Count(got, "\n"); lines > rows {
				t.Errorf("%d of %d rows at %d columns:\n%s", lines, rows, columns, got)
			}
			for line := range strings.Lines(got) {
				if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns {
					t.Errorf("%d of %d columns: %s", width, columns, line)
				}
			}
			if rows == text.Rows {
				golden.Check(t, fmt.Sprintf("testdata/folded-%d.golden", columns), got)
			}
		}
	}
	narrow, err := BuildAs(s, Draw{Level: "host"})
	if err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]string{
		"wide": report.Text(text.Page{Wide: true, Rows: text.Rows}), "a level": narrow.Text(text.Page{Rows: text.Rows}),
	} {
		for i := range 200 {
			if !strings.Contains(whole, fmt.Sprintf("team-%d/g-%d", i%7, i)) {
				t.Fatalf("%s: graph %d is left out", name, i)
			}
		}
	}
}

// TestFoldsBroadLevels: where the broadest level alone has more domains than a screen, those that do not fit are summed up.
func TestFoldsBroadLevels(t *testing.T) {
	w := newWorld(t, 26, 1, 1)
	for i := range 26 {
		w.addGraph(strings.ReplaceAll(plain, "name: plain", fmt.Sprintf("name: g-%d", i)), fmt.Sprintf("g-%d-worker-0 %c-0-0", i, 'a'+i))
	}
	report, err := BuildAs(w.scene(), Draw{})
	if err != nil {
		t.Fatal(err)
	}
	got := report.Text(text.Page{Rows: 40})
	if lines := strings.Count(got, "\n"); lines > 40 || !strings.Contains(got, " more zones ") || !strings.Contains(got, " more, ") {
		t.Errorf("%d lines:\n%s", lines, got)
	}
}

// TestFewGraphsAreNotFolded: one graph, or a report that fits, is shown as it is.
func TestFewGraphsAreNotFolded(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"one graph": func(w *world) { w.addGraph(packed, chatRunning) },
		"two graphs that fit": func(w *world) {
			w.addGraph(packed, chatRunning)
			w.addGraph(small, smallRunning)
		},
	} {
		w := newWorld(t, 2, 3, 4)
		prepare(w)
		report, err := BuildAs(w.scene(), Draw{})
		if err != nil {
			t.Fatal(err)
		}
		rows := 40
		if name == "one graph" {
			rows = 10
		}
		if got := report.Text(text.Page{Rows: rows}); strings.Contains(got, "Folded") {
			t.Errorf("%s is folded:\n%s", name, got)
		}
	}
}
