// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestMain keeps property runs short; TRELLIS_CHECKS=10000 go test runs the full number.
func TestMain(m *testing.M) {
	checks := os.Getenv("TRELLIS_CHECKS")
	if checks == "" {
		checks = "300"
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// said is a plan in words.
func said(p *Plan) []string {
	if p == nil {
		return nil
	}
	out := []string{fmt.Sprintf("%v %d GPUs %d replicas %v", p.Domains, p.Cost.GPUs, p.Cost.Replicas, p.Nodes)}
	for _, m := range p.Moves {
		line := fmt.Sprintf("%s %s to %s %v", m.Replica.Graph, m.From, m.To, m.Nodes)
		if m.InPlace {
			line += " in place"
		}
		out = append(out, line)
	}
	return out
}

func TestFind(t *testing.T) {
	rack := func() *hall { return (&hall{}).add("a/r1", 8, 8).add("a/r2", 8, 8).add("a/r3", 8, 8) }
	for name, tc := range map[string]struct {
		hall   *hall
		gang   Gang
		limits Limits
		change func(h *hall, g *Gang)
		want   []string
	}{
		"the fewest GPUs": {
			hall: rack().runs("a", "a", none, 4, 0).runs("b", "a", none, 4, 2).runs("c", "a", none, 8, 3).runs("d", "a", none, 8, 4).uses(5, 4),
			gang: gangOf(1, 2, 8), want: []string{"[a/r1] 4 GPUs 1 replicas [h0000 h0001]"},
		},
		"one of 4 GPUs and not two of 2": {
			hall: rack().runs("a", "a", none, 4, 0).runs("b", "a", none, 2, 2).runs("c", "a", none, 2, 3).uses(4, 4).uses(5, 6),
			gang: gangOf(1, 2, 8), want: []string{"[a/r1] 4 GPUs 1 replicas [h0000 h0001]"},
		},
		"the lower priority": {
			hall: rack().runs("a", "a", none, 4, 0).runs("b", "a", none, 4, 2).uses(4, 4).uses(5, 8), gang: gangOf(1, 2, 8),
			change: func(h *hall, g *Gang) { g.Priority, h.replicas[0].Priority, h.replicas[1].Priority = 10, 5, 2 },
			want:   []string{"[a/r2] 4 GPUs 1 replicas [h0002 h0003]"},
		},
		"nothing of higher priority": {
			hall: rack().runs("a", "a", none, 4, 0).uses(2, 8).uses(4, 4), gang: gangOf(1, 2, 8),
			change: func(h *hall, _ *Gang) { h.replicas[0].Priority = 1 },
		},
		"nothing that moved within an hour": {
			hall: rack().runs("a", "a", none, 4, 0).uses(2, 8).uses(4, 4), gang: gangOf(1, 2, 8), limits: Limits{Now: noon},
			change: func(h *hall, _ *Gang) { h.replicas[0].Created = noon.Add(-59 * time.Minute) },
		},
		"not more GPUs than may restart": {
			hall: rack().runs("a", "a", none, 4, 0).uses(2, 8).uses(4, 4), gang: gangOf(1, 2, 8), limits: Limits{MaxGPUs: 3},
		},
		"nothing without a place elsewhere in its graph's domain": {
			hall: rack().add("b/r1", 4).runs("a", "a", none, 4, 0).uses(2, 8).uses(3, 8).uses(4, 8).uses(5, 8), gang: gangOf(1, 2, 8),
		},
		"a replica of two hosts": {
			hall: rack().runs("a", "a", 1, 4, 0, 1).uses(2, 4).uses(3, 4).uses(4, 2).uses(5, 2), gang: gangOf(1, 2, 8),
			want: []string{"[a/r1] 8 GPUs 1 replicas [h0000 h0001]"},
		},
		"one makes room for another": {
			hall: (&hall{}).add("a/r1", 8).add("a/r2", 8).add("b/r1", 6).runs("a", "a", none, 6, 0).runs("b", "", none, 6, 1),
			gang: gangOf(1, 1, 8), change: func(_ *hall, g *Gang) { g.Within = topology.Path{"a", "r1"} },
			want: []string{"[a/r1] 12 GPUs 2 replicas [h0000]", "b a/r2 to b/r1 [h0002]", "a a/r1 to a/r2 [h0001]"},
		},
		"inside a rack": {
			hall: (&hall{}).add("a/r1", 8, 8).runs("a", "a", none, 2, 0).runs("b", "a", none, 4, 1), gang: gangOf(1, 1, 8),
			want: []string{"[a/r1] 2 GPUs 1 replicas [h0000]", "a a/r1 to a/r1 [h0001]"},
		},
		"two change places": {
			hall: (&hall{}).add("a/r1", 8).add("a/r2", 6).runs("a", "a", none, 6, 0).runs("b", "a", none, 3, 1), gang: gangOf(1, 1, 5),
			want: []string{"[a/r1] 9 GPUs 2 replicas [h0000]", "a a/r1 to a/r2 [h0001] in place", "b a/r2 to a/r1 [h0000]"},
		},
		"not to its own hosts in order": {
			hall: (&hall{}).add("a/r1", 4, 4, 4).add("a/r2", 4).runs("a", "", none, 3, 1, 2), gang: gangOf(1, 2, 3), limits: Limits{InOrder: true},
			want: []string{"[a/r1] 6 GPUs 1 replicas [h0001 h0002]", "a a/r1 to a [h0000 h0003]"},
		},
		"no moves": {hall: rack().uses(0, 8).uses(2, 8), gang: gangOf(1, 2, 8), want: []string{"[a/r3] 0 GPUs 0 replicas [h0004 h0005]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(tc.hall, &tc.gang)
			}
			got := Find(tc.hall.place(), tc.gang, tc.hall.replicas, tc.limits)
			if got.Cut {
				t.Error("the search was cut off")
			}
			text := said(got.Plan)
			if len(tc.want) == 1 && len(text) > 1 {
				text = text[:1]
			}
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Plan != nil {
				tc.hall.check(t, tc.gang, got.Plan)
			}
		})
	}
}

// drawHall draws at most 8 hosts in at most 4 racks, and at most 7 replicas of at most 3 pods that run there.
func drawHall(t *rapid.T) *hall {
	h := &hall{}
	for i := range rapid.IntRange(2, 8).Draw(t, "hosts") {
		path := rapid.SampledFrom([]string{"a/r1", "a/r2", "b/r1", "b/r2"}).Draw(t, fmt.Sprintf("path%d", i))
		h.add(path, int64(rapid.SampledFrom([]int{4, 4, 4, 2, 3}).Draw(t, fmt.Sprintf("gpus%d", i))))
		if rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("in use%d", i)) == 0 {
			h.uses(i, int64(rapid.IntRange(1, 2).Draw(t, fmt.Sprintf("fixed%d", i))))
		}
	}
	for i := range rapid.IntRange(3, 7).Draw(t, "replicas") {
		h.drawReplica(t, i)
	}
	return h
}

// drawReplica has a replica run where there is room for it.
func (h *hall) drawReplica(t *rapid.T, i int) {
	label := func(s string) string { return fmt.Sprintf("%s%d", s, i) }
	gpus := int64(rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 4, 0}).Draw(t, label("each")))
	first := rapid.IntRange(0, len(h.paths)-1).Draw(t, label("host"))
	required, within := none, ""
	if rapid.Bool().Draw(t, label("one rack")) {
		required = 1
	}
	if rapid.Bool().Draw(t, label("bounded")) {
		within = h.paths[first].Truncate(rapid.IntRange(0, 1).Draw(t, label("bound"))).String()
	}
	free, hosts := h.free(func(int) bool { return false }), []int{}
	for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, label("pods")) {
		for d := range h.paths {
			at := (first + d) % len(h.paths)
			domain := h.paths[first].Truncate(max(required, topology.ParsePath(within).Level()))
			if free[at] >= gpus && domain.Contains(h.paths[at]) {
				free[at] -= gpus
				hosts = append(hosts, at)
				break
			}
		}
	}
	if len(hosts) == 0 {
		return
	}
	h.runs(fmt.Sprintf("g%d", i), within, required, gpus, hosts...)
	r := &h.replicas[len(h.replicas)-1]
	r.Priority = int32(rapid.SampledFrom([]int{0, 0, 1, 2, 9}).Draw(t, label("priority")))
	if rapid.IntRange(0, 5).Draw(t, label("young")) == 0 {
		r.Created = noon.Add(-Rest / 2)
	}
}

// drawGang draws a waiting gang, and a limit of GPUs that may restart for it.
func drawGang(t *rapid.T) (Gang, Limits) {
	gang := gangOf(rapid.SampledFrom([]int{1, 1, 0, none}).Draw(t, "level"), rapid.IntRange(1, 3).Draw(t, "pods"),
		int64(rapid.SampledFrom([]int{1, 2, 3, 3, 4, 4}).Draw(t, "gpus")))
	gang.Priority = 2
	return gang, Limits{Now: noon, MaxGPUs: int64(rapid.SampledFrom([]int{0, 0, 0, 4}).Draw(t, "most"))}
}

// TestCheapestInOrder: moves in order are of least cost, too, and found in at least 97 of 100 halls in which there are some.
func TestCheapestInOrder(t *testing.T) {
	type world struct {
		hall   *hall
		gang   Gang
		limits Limits
	}
	worlds := rapid.Custom(func(t *rapid.T) world {
		w := world{hall: drawHall(t)}
		w.gang, w.limits = drawGang(t)
		w.limits.InOrder = true
		return w
	})
	found, missed := 0, 0
	for seed := range 3000 {
		w := worlds.Example(seed)
		got := Find(w.hall.place(), w.gang, w.hall.replicas, w.limits)
		want, possible := w.hall.cheapest(w.gang, w.limits)
		switch {
		case got.Plan == nil && possible:
			missed++
		case got.Plan == nil:
		case !possible:
			t.Fatalf("seed %d: found what brute force holds impossible: %v", seed, said(got.Plan))
		case got.Plan.Cost != want:
			t.Fatalf("seed %d: cost %+v, want %+v: %v", seed, got.Plan.Cost, want, said(got.Plan))
		case want.Replicas > 0:
			found++
			w.hall.check(t, w.gang, got.Plan)
			if !got.Plan.inOrder() {
				t.Errorf("seed %d: not in order: %v", seed, said(got.Plan))
			}
		}
	}
	t.Logf("moves found in %d cases, missed in %d", found, missed)
	if found < 100 || missed*100 > 3*(found+missed) {
		t.Errorf("moves found in %d cases, missed in %d", found, missed)
	}
}

// TestCheapest: whenever a set of moves frees the place, one of least cost is found, and it can be carried out.
func TestCheapest(t *testing.T) {
	found, exist := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := drawHall(t)
		gang, limits := drawGang(t)
		place := h.place()
		before := place.Cluster.Tree(levels, nil).View(shapeOf(1)).Fit(topology.Root)
		got := Find(place, gang, h.replicas, limits)
		if after := place.Cluster.Tree(levels, nil).View(shapeOf(1)).Fit(topology.Root); after != before {
			t.Fatalf("the cluster holds %d pods after the search, %d before", after, before)
		}
		want, possible := h.cheapest(gang, limits)
		if possible {
			exist++
		}
		switch {
		case got.Cut:
			t.Fatal("the search was cut off")
		case got.Plan == nil && possible:
			t.Fatalf("nothing found; there are moves of %+v", want)
		case got.Plan == nil:
			return
		case !possible:
			t.Fatalf("found what brute force holds impossible: %v", said(got.Plan))
		case got.Plan.Cost != want:
			t.Fatalf("cost %+v, want %+v: %v", got.Plan.Cost, want, said(got.Plan))
		}
		if got.Plan.Cost.Replicas > 0 {
			found++
		}
		h.check(t, gang, got.Plan)
	})
	t.Logf("moves found in %d cases, a place exists in %d", found, exist)
	if found == 0 {
		t.Error("no case needs moves")
	}
}
