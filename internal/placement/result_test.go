// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

func TestScore(t *testing.T) {
	ls := levels("zone", "rack")
	cases := map[string]struct {
		nodes []string
		want  float64
	}{
		"one rack":              {nodes: []string{"a1 a/r1 8", "a2 a/r1 8"}, want: 1},
		"two racks of one zone": {nodes: []string{"a1 a/r1 8", "a2 a/r2 8"}, want: 0.75},
		"two zones":             {nodes: []string{"a1 a/r1 8", "b1 b/r1 8"}, want: 0.5},
		"nowhere":               {nodes: []string{"a1 a/r1 8"}, want: Unscored},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", none, none, 1, 2, gpus(8))}}
			if r := PlanGraph(clusterOf(ls, tc.nodes...), g, Options{}); r.Score != tc.want {
				t.Errorf("score %v, want %v", r.Score, tc.want)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	ls := levels("zone", "rack")
	cases := map[string]struct {
		within topology.Path
		pods   []Pod
		want   map[string]string
	}{
		"in the pinned rack":     {within: topology.Path{"b", "r1"}, pods: pods("p", 2, gpus(8)), want: map[string]string{"p-0": "b1", "p-1": "b2"}},
		"large pods first":       {within: topology.Path{"b", "r1"}, pods: append(pods("s", 2, gpus(4)), pods("p", 1, gpus(8))...), want: map[string]string{"s-0": "b2", "s-1": "b2", "p-0": "b1"}},
		"anywhere":               {pods: pods("p", 1, gpus(8)), want: map[string]string{"p-0": "a1"}},
		"too little space":       {within: topology.Path{"a", "r1"}, pods: pods("p", 2, gpus(8))},
		"a rack that is gone":    {within: topology.Path{"a", "r9"}, pods: pods("p", 1, gpus(8))},
		"no pods, nothing to do": {within: topology.Path{"a"}, want: map[string]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, "a1 a/r1 8", "b1 b/r1 8", "b2 b/r1 8")
			got, ok := Locate(c, tc.within, Place{Levels: ls}, tc.pods)
			if ok != (tc.want != nil) {
				t.Fatalf("found %v, want %v", ok, tc.want != nil)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			for _, p := range tc.pods {
				if node, held := c.Reserved(p.ID); held != ok || held && node != tc.want[p.ID] {
					t.Errorf("%s reserved on %q (%v), want %q", p.ID, node, held, tc.want[p.ID])
				}
			}
		})
	}
}

func TestMessages(t *testing.T) {
	ls := levels("zone", "block", "rack")
	long := strings.Repeat("é", 31)
	cases := map[string]groupCase{
		"the sentence of docs/conditions.md": {levels: ls,
			nodes: []string{"a z0/b1/r2 8", "b z0/b1/r2 8", "c z0/b1/r2 8", "d z0/b1/r2 8 cordoned", "e z0/b1/r3 8", "f z0/b1/r4 8"},
			group: group("g", 2, none, pods("p", 4, gpus(8))),
			wantWhy: "needs 4 pods x 8 nvidia.com/gpu in one rack; z0/b1/r2 holds 3 of 4 (1 host cordoned); " +
				"2 other racks hold fewer"},
		"scattered capacity": {levels: ls,
			nodes: []string{"a z/b/r 8 used=4", "b z/b/r 8 used=4", "c z/b/r 8 used=4"}, group: group("g", 2, none, pods("p", 1, gpus(8))),
			wantWhy: "needs 1 pod x 8 nvidia.com/gpu in one rack; z/b/r holds 0 of 1 (3 hosts short of nvidia.com/gpu, " +
				"12 of 8 nvidia.com/gpu free, at most 4 on one host)"},
		"every reason": {levels: ls,
			nodes: []string{"a z/b/r 8 cordoned", "b z/b/r 8 notready", "c z/b/r 8 taint=gpu", "d z/b/r 8 pods=0", "e z/b/r 8", "f z/b/r 8 taint=gpu", "g z/b/r 8 cpu=0 used=8"},
			group: group("g", 2, none, pods("p", 2, gpus(8))),
			wantWhy: "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b/r holds 1 of 2 (2 hosts taint gpu=x:NoSchedule, 1 host cordoned, " +
				"1 host not ready, 1 host pod slots used up, 1 host for other reasons)"},
		"several shapes": {levels: ls, nodes: []string{"a z/b/r 8", "b z/b/r 8"},
			group:   group("g", 2, none, append(pods("lead", 1, cpus(2)), pods("work", 3, gpus(8))...)),
			wantWhy: "needs 3 pods x 8 nvidia.com/gpu + 1 pod x 2 cpu in one rack; z/b/r holds 3 of 4 (16 of 24 nvidia.com/gpu free)"},
		"the part that does not fit": {levels: ls, nodes: []string{"a z/b/r1 8", "b z/b/r2 8", "c z/b/r2 8"},
			group: group("g", 0, none, nil, group("one", 2, none, pods("o", 2, gpus(8))), group("two", 2, none, pods("t", 1, gpus(8))),
				group("three", 2, none, pods("h", 1, gpus(8)))),
			wantWhy: "needs 4 pods x 8 nvidia.com/gpu in one zone; z holds 3 of 4; there two " +
				"needs 1 pod x 8 nvidia.com/gpu in one rack inside z; z/b/r2 holds 0 of 1 (2 hosts short of nvidia.com/gpu); 1 other rack holds no more"},
		"an anchor": {levels: ls, nodes: []string{"a z/b/r1 8 used=8"},
			group:   &Group{Required: 2, Preferred: none, Within: topology.Path{"z", "b", "r1"}, Pods: pods("p", 1, gpus(8))},
			wantWhy: "needs 1 pod x 8 nvidia.com/gpu in z/b/r1; it holds 0 of 1 (1 host short of nvidia.com/gpu)"},
		"an anchor without nodes": {levels: ls, nodes: []string{"a z/b/r1 8"},
			group:   &Group{Required: 2, Preferred: none, Within: topology.Path{"z", "b", "r9"}, Pods: pods("p", 1, gpus(8))},
			wantWhy: "z/b/r9, where members of the graph are pinned, has no nodes any more; the graph can move when all of these members are gone"},
		"no labels": {levels: ls, nodes: []string{"a - 8"}, group: group("g", 1, none, pods("p", 1, gpus(8))),
			wantWhy: "no node has label topology.example/zone of level 'zone': correct the key of the level, or label the nodes; needs 1 pod x 8 nvidia.com/gpu in one block"},
		"long names are shortened in the middle": {levels: ls, nodes: []string{"a " + long + "/" + long + "/" + long + " 1"},
			group: group("g", 2, none, pods("p", 2, gpus(1))),
			wantWhy: "needs 2 pods x 1 nvidia.com/gpu in one rack; " + strings.Repeat("é", 31) + "/" + strings.Repeat("é", 7) + "..." +
				strings.Repeat("é", 8) + "/" + strings.Repeat("é", 31) + " holds 1 of 2 (1 of 2 nvidia.com/gpu free)"},
	}
	runGroupCases(t, cases)
}

// TestBudget: the search reports it when it stops without an answer, and finds the packing with a larger budget.
func TestBudget(t *testing.T) {
	ls := levels("rack")
	// Largest first fills one host with 4+4 and has no capacity for the last 3; only going back on the hosts finds 4+3+3 twice.
	c := clusterOf(ls, "a r 10", "b r 10")
	g := &Group{Name: "g", Required: 0, Preferred: none, Pods: append(pods("f", 2, gpus(4)), pods("t", 4, gpus(3))...)}
	_, why := PlanGroup(c, ls, nil, g, Options{Budget: 4})
	if why == nil || why.Code != CodeBudgetExhausted {
		t.Fatalf("four steps: %+v", why)
	}
	want := "needs 2 pods x 4 nvidia.com/gpu + 4 pods x 3 nvidia.com/gpu in one rack; " +
		"the search stopped after 4 steps without an answer; r holds 5 of 6"
	if diff := cmp.Diff(want, why.Message()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if _, why := PlanGroup(c, ls, nil, g, Options{}); why != nil {
		t.Errorf("default budget: %s", why.Message())
	}
}
