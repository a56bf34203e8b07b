// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pod reads "SERVICE/REPLICA" and "SERVICE/REPLICA/INDEX", the latter of a multinode component.
func pod(text, state string) Pod {
	parts := strings.Split(text, "/")
	number := func(i int) int32 { return int32(parts[i][0] - '0') }
	p := Pod{Name: text, Graph: "g", Component: parts[0], Replica: number(1), Role: "main", State: state}
	if len(parts) == 3 {
		p.Index, p.Role = number(2), "worker"
		if p.Index == 0 {
			p.Role = "leader"
		}
	}
	return p
}

func TestGroupPods(t *testing.T) {
	for name, tc := range map[string]struct {
		ready, terminating []string
		want               []string
	}{
		"none":               {},
		"one":                {ready: []string{"Frontend/0"}, want: []string{"g: Frontend-0"}},
		"two":                {ready: []string{"Frontend/1", "Frontend/0"}, want: []string{"g: Frontend-0,1"}},
		"a run and one more": {ready: []string{"F/5", "F/2", "F/1", "F/0"}, want: []string{"g: F-0..2,5"}},
		"services apart":     {ready: []string{"B/0", "A/0"}, want: []string{"g: A-0", "g: B-0"}},
		"a leader":           {ready: []string{"W/1/0"}, want: []string{"g: W-1 (leader)"}},
		"one worker":         {ready: []string{"W/1/3"}, want: []string{"g: W-1 (worker 3)"}},
		"a leader and one":   {ready: []string{"W/1/3", "W/1/0"}, want: []string{"g: W-1 (leader, worker 3)"}},
		"a whole replica":    {ready: []string{"W/0/2", "W/0/3", "W/0/1", "W/0/0"}, want: []string{"g: W-0 (leader, workers 1..3)"}},
		"workers with a gap": {ready: []string{"W/0/1", "W/0/2", "W/0/5"}, want: []string{"g: W-0 (workers 1,2,5)"}},
		"replicas apart":     {ready: []string{"W/1/1", "W/0/1"}, want: []string{"g: W-0 (worker 1)", "g: W-1 (worker 1)"}},
		"states apart":       {ready: []string{"F/0", "F/2"}, terminating: []string{"F/1"}, want: []string{"g: F-0,2", "g: F-1, terminating"}},
		"old and new of one replica": {
			ready: []string{"W/0/0"}, terminating: []string{"W/0/0"}, want: []string{"g: W-0 (leader)", "g: W-0 (leader), terminating"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []Pod
			for _, p := range tc.ready {
				pods = append(pods, pod(p, ""))
			}
			for _, p := range tc.terminating {
				pods = append(pods, pod(p, stateTerminating))
			}
			got := groupPods(pods, func(p Pod) string { return p.Graph + ": " })
			if diff := cmp.Diff(slices.Concat(tc.want), slices.Concat(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
