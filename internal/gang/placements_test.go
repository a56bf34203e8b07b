// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

func stored(cut CutPlacements) *trellisv1alpha1.ScalingGroupStatus {
	return &trellisv1alpha1.ScalingGroupStatus{Placements: cut.Listed, FurtherPlacements: cut.Further}
}

func TestCutPlacements(t *testing.T) {
	at := func(replica int32, domain string, bound bool) trellisv1alpha1.ReplicaPlacement {
		return trellisv1alpha1.ReplicaPlacement{Replica: replica, Domain: domain, Bound: bound}
	}
	all := []trellisv1alpha1.ReplicaPlacement{
		at(0, "a/r0/h0", true), at(1, "a/r0/h1", true), at(2, "a/r0/h2", true), at(3, "a/r1/h3", false), at(7, "b", true), at(8, "a/r0/h0", true), at(9, "a/r0/h0", true), at(10, "a/r0/h0", false),
	}
	two := 2 * (listedCost + len("a/r0/h0"))
	further := func(domain, replicas, former string) trellisv1alpha1.DomainPlacements {
		return trellisv1alpha1.DomainPlacements{Domain: domain, Replicas: replicas, Former: former}
	}
	for name, c := range map[string]struct {
		budget PlacementBudget
		want   CutPlacements
	}{
		"all is listed":      {PlacementBudget{1 << 20, 0}, CutPlacements{Listed: all}},
		"the rest by domain": {PlacementBudget{two, 1 << 20}, CutPlacements{Listed: all[:2], Further: []trellisv1alpha1.DomainPlacements{further("a/r0/h0", "8-9", "10"), further("a/r0/h2", "2", ""), further("a/r1/h3", "", "3"), further("b", "7", "")}}},
		"down to racks":      {PlacementBudget{two, 3*furtherCost + 18}, CutPlacements{Listed: all[:2], Depth: 2, Further: []trellisv1alpha1.DomainPlacements{further("a/r0", "2,8-9", "10"), further("a/r1", "", "3"), further("b", "7", "")}}},
		"down to zones":      {PlacementBudget{two, 2*furtherCost + 12}, CutPlacements{Listed: all[:2], Depth: 1, Further: []trellisv1alpha1.DomainPlacements{further("a", "2,8-9", "3,10"), further("b", "7", "")}}},
		"the first ones":     {PlacementBudget{two, 2*furtherCost + 7}, CutPlacements{Listed: all[:2], Depth: 1, Dropped: 2, Further: []trellisv1alpha1.DomainPlacements{further("a", "2,8", "3"), further("b", "7", "")}}},
		"none":               {PlacementBudget{}, CutPlacements{Depth: 1, Dropped: len(all)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.budget.Cut(all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := (PlacementBudget{}).Cut(nil); got.Depth != 0 || got.Dropped != 0 {
		t.Errorf("of nothing something is cut: %+v", got)
	}
}

// Whatever is cut is what it was read back as, but for the narrower levels of some and the last ones; within the budget, and the same the next time.
func TestCutPlacementsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []trellisv1alpha1.ReplicaPlacement
		replica := int32(0)
		for range rapid.IntRange(0, 200).Draw(t, "replicas") {
			path := make([]string, rapid.IntRange(1, 4).Draw(t, "depth"))
			for i := range path {
				path[i] = strings.Repeat(rapid.StringMatching("[a-c]").Draw(t, "label"), rapid.SampledFrom([]int{1, 63}).Draw(t, "length"))
			}
			all = append(all, trellisv1alpha1.ReplicaPlacement{Replica: replica, Domain: strings.Join(path, "/"), Bound: rapid.Bool().Draw(t, "bound")})
			replica += rapid.Int32Range(1, 3).Draw(t, "gap")
		}
		budget := PlacementBudget{rapid.IntRange(0, 4000).Draw(t, "listed"), rapid.IntRange(0, 4000).Draw(t, "further")}
		cut := budget.Cut(all)
		raw, err := json.Marshal(cut.Further)
		if err != nil || len(cut.Further) > 0 && len(raw) > budget.Further+2 {
			t.Fatalf("%d bytes, want %d at most: %v", len(raw), budget.Further, err)
		}
		got := Placements(stored(cut))
		if len(got) != len(all)-cut.Dropped {
			t.Fatalf("%d of %d replicas, and %d dropped", len(got), len(all), cut.Dropped)
		}
		for i, p := range got {
			want := all[i]
			if i >= len(cut.Listed) && cut.Depth > 0 {
				want.Domain = cutPath(want.Domain, cut.Depth)
			}
			if p != want {
				t.Fatalf("%+v was read back as %+v", want, p)
			}
		}
		if diff := cmp.Diff(cut, budget.Cut(all)); diff != "" {
			t.Fatalf("the next time (-first +second):\n%s", diff)
		}
	})
}

// A status that another client wrote is no fault: what cannot be an ordinal is left out.
func TestPlacementsOfAnOddStatus(t *testing.T) {
	status := &trellisv1alpha1.ScalingGroupStatus{FurtherPlacements: []trellisv1alpha1.DomainPlacements{
		{Domain: "a", Replicas: "3,x,-1,5-4,7-,0-99999999999,1-2000000000,2", Former: ",,"},
	}}
	want := []trellisv1alpha1.ReplicaPlacement{{Replica: 2, Domain: "a", Bound: true}, {Replica: 3, Domain: "a", Bound: true}}
	if diff := cmp.Diff(want, Placements(status)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The budget is kept at the most replicas that there may be, by turns in domains with the longest paths, and quickly enough for each look at a group.
func BenchmarkCutPlacements(b *testing.B) {
	var all []trellisv1alpha1.ReplicaPlacement
	for n := range int32(65536) {
		path := make([]string, 16)
		for i := range path {
			path[i] = fmt.Sprintf("%063d", int(n)>>(15-i))
		}
		all = append(all, trellisv1alpha1.ReplicaPlacement{Replica: n, Domain: strings.Join(path, "/"), Bound: n%2 == 0})
	}
	for b.Loop() {
		if cut := DefaultPlacementBudget.Cut(all); len(cut.Further) == 0 {
			b.Fatal("nothing is left")
		}
	}
}
