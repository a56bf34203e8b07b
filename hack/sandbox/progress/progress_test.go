// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	type step struct {
		after       time.Duration
		text        string
		done, total int
	}
	tests := map[string]struct {
		steps []step
		want  string
	}{
		"a sentence is a line": {
			steps: []step{{text: "starting"}, {text: "starting"}},
			want:  "starting\nstarting\n",
		},
		"short work is one line": {
			steps: []step{{0, "nodes", 0, 4}, {time.Millisecond, "nodes", 2, 4}, {time.Millisecond, "nodes", 4, 4}, {0, "nodes", 4, 4}},
			want:  "nodes: 4 of 4 (100 %)\n",
		},
		"every five percent": {
			steps: []step{
				{0, "build", 0, 1000}, {2 * time.Second, "build", 10, 1000}, {2 * time.Second, "build", 30, 1000},
				{2 * time.Second, "build", 60, 1000}, {2 * time.Second, "build", 70, 1000}, {2 * time.Second, "build", 110, 1000},
			},
			want: "build: 60 of 1000 (6 %)\nbuild: 110 of 1000 (11 %)\n",
		},
		"slow work, every quarter of a minute": {
			steps: []step{{0, "build", 0, 1000}, {20 * time.Second, "build", 10, 1000}, {10 * time.Second, "build", 20, 1000}, {6 * time.Second, "build", 30, 1000}},
			want:  "build: 10 of 1000 (1 %)\nbuild: 30 of 1000 (3 %)\n",
		},
		"the next work starts again": {
			steps: []step{{0, "one", 1, 1}, {0, "two", 0, 2}, {0, "two", 2, 2}},
			want:  "one: 1 of 1 (100 %)\ntwo: 2 of 2 (100 %)\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			report := Lines(&out, func() time.Time { return now })
			for _, s := range tc.steps {
				now = now.Add(s.after)
				report(Event{Text: s.text, Done: s.done, Total: s.total})
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNilFuncIsSilent(*testing.T) {
	var f Func
	f.Say("nobody listens")
	f.Count("nor here", 1, 2)
}
