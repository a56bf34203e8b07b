// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestScaleInFreesDomains: of replicas that serve the current revision, the one that is to leave goes first, then the one with the fewest
// pods of others in its domain, then the youngest.
func TestScaleInFreesDomains(t *testing.T) {
	leaving := []Leave{{Ordinal: 0}}
	for name, c := range map[string]struct {
		group    Group
		replicas []Replica
		want     []Removal
	}{
		"one that is to leave": {
			Group{Replicas: 1, Leaving: leaving},
			[]Replica{{Ordinal: 0, State: Available, Created: 1, Neighbours: 9}, {Ordinal: 1, State: Available, Created: 2}, {Ordinal: 2, State: Available, Created: 3}},
			[]Removal{{Ordinal: 0, Why: "the component is scaled in: 1 of 3 replicas have to go, and this one is to leave its nodes", ScaleIn: true}},
		},
		"fewest neighbours": {
			Group{Replicas: 2},
			[]Replica{{Ordinal: 0, State: Available, Created: 1}, {Ordinal: 1, State: Available, Created: 2, Neighbours: 3}, {Ordinal: 2, State: Available, Created: 3, Neighbours: 4}},
			[]Removal{{Ordinal: 0, Why: "the component is scaled in: 1 of 3 replicas have to go, and this one has the fewest pods of others in its domain", ScaleIn: true}},
		},
		"one that does not serve goes before": {
			Group{Replicas: 1},
			[]Replica{{Ordinal: 0, State: Available, Created: 1}, {Ordinal: 1, State: Starting, Created: 2, Neighbours: 3}},
			[]Removal{{Ordinal: 1, Why: "the component is scaled in: 1 of 2 replicas have to go, and this one does not serve", ScaleIn: true}},
		},
		"the youngest of equal ones": {
			Group{Replicas: 1},
			[]Replica{{Ordinal: 0, State: Available, Created: 1, Neighbours: 3}, {Ordinal: 1, State: Available, Created: 2, Neighbours: 3}},
			[]Removal{{Ordinal: 1, Why: "the component is scaled in: 1 of 2 replicas have to go, and this one is the youngest", ScaleIn: true}},
		},
	} {
		got := c.group.Next(c.replicas, nil, 8).Remove
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDrains lets nodes leave in batches, in any order with everything else. A replica goes only when as many others serve as are wanted, or
// when it is overdue, and then no more are missing than may be; successors stay; and with capacity for one more, all have left in the end.
func TestDrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		want := Group{Replicas: number(1, 5, "replicas"), MaxUnavailable: number(0, 2, "U"), MaxSurge: number(0, 2, "S")}
		s := newSimulation(want, number(want.Replicas, want.Replicas+3, "capacity"))
		former := map[*simulated]bool{}
		for _, r := range s.replicas {
			former[r] = true
		}
		floor := want.Replicas
		for range number(1, 60, "steps") {
			switch number(0, 7, "what") {
			case 0: // a batch: successors are not placed on nodes that leave already
				for ordinal, r := range s.replicas {
					if former[r] {
						s.drain(ordinal)
					}
				}
			case 1:
				if number(0, 9, "overdue") == 0 {
					s.overdue()
					floor = want.Replicas - max(1, want.MaxUnavailable)
				}
			case 2, 3:
				s.terminator()
			case 4, 5:
				s.placer()
			default:
				s.kubelet()
			}
			checkMove(t, s, former, floor)
		}
		s.capacity += want.Replicas + max(1, want.MaxSurge)
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
		if len(s.leaving()) > 0 {
			t.Fatalf("replicas are left on nodes that are to go:\n%s", s.log.String())
		}
	})
}

func checkMove(t *rapid.T, s *simulation, former map[*simulated]bool, floor int) {
	serves := map[*simulated]bool{}
	for _, r := range s.replicas {
		serves[r] = r.state == Available && !r.leaves
	}
	s.controller()
	if s.available() < floor {
		t.Fatalf("%d replicas serve, %d have to stay\n%s", s.available(), floor, s.log.String())
	}
	if active := count(s.view(), Replica.active); active > s.want.Replicas+max(1, s.want.MaxSurge) {
		t.Fatalf("%d replicas live, %d are wanted\n%s", active, s.want.Replicas, s.log.String())
	}
	for ordinal, r := range s.replicas {
		if r.state == Leaving && serves[r] {
			t.Fatalf("replica %d serves, was not to leave and was taken (one of the first: %v)\n%s", ordinal, former[r], s.log.String())
		}
	}
}

// TestMovesThatEnd: when nodes stay after all, what serves there is not touched, and the surplus goes.
func TestMovesThatEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Group{Replicas: rapid.IntRange(1, 4).Draw(t, "replicas"), MaxUnavailable: rapid.IntRange(0, 2).Draw(t, "U")}
		s := newSimulation(want, want.Replicas+1)
		s.drain(rapid.IntRange(0, want.Replicas-1).Draw(t, "which"))
		for range rapid.IntRange(0, 2).Draw(t, "rounds") { // too few for a successor to serve and the replica to go
			s.controller()
			s.placer()
		}
		s.stay()
		stays := map[*simulated]bool{}
		for _, r := range s.replicas {
			stays[r] = r.state == Available
		}
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
		for _, r := range s.replicas {
			if !stays[r] {
				t.Fatalf("a replica was replaced that could have stayed:\n%s", s.log.String())
			}
		}
	})
}

// TestMovesWithinQuota: a replica that is overdue goes within its quota. A successor without quota goes before it, since the quota may be for
// the ordinal of the one that leaves; a successor that waits for capacity stays.
func TestMovesWithinQuota(t *testing.T) {
	serves := func(ordinal int) Replica { return Replica{Ordinal: ordinal, State: Available} }
	for name, c := range map[string]struct {
		overdue   bool
		successor []Replica
		remove    []int
		make      []int
	}{
		"no successor yet":                              {false, nil, nil, []int{2}},
		"a successor without quota":                     {false, []Replica{{Ordinal: 2, State: Waiting, NoQuota: true}}, nil, nil},
		"overdue, no successor yet":                     {true, nil, []int{0}, nil},
		"overdue, a successor without quota":            {true, []Replica{{Ordinal: 2, State: Waiting, NoQuota: true}}, []int{2, 0}, nil},
		"overdue, a successor without quota, not whole": {true, []Replica{{Ordinal: 2, State: Partial, NoQuota: true}}, []int{2, 0}, nil},
		"overdue, a successor without capacity":         {true, []Replica{{Ordinal: 2, State: Waiting}}, []int{0}, nil},
		"overdue, a successor that starts":              {true, []Replica{{Ordinal: 2, State: Starting}}, []int{0}, nil},
	} {
		group := Group{Replicas: 2, MaxUnavailable: 1, Leaving: []Leave{{Ordinal: 0, Overdue: c.overdue}}}
		plan := group.Next(append([]Replica{serves(0), serves(1)}, c.successor...), nil, 8)
		var removed []int
		for _, r := range plan.Remove {
			removed = append(removed, r.Ordinal)
		}
		if diff := cmp.Diff([][]int{c.remove, c.make}, [][]int{removed, plan.Make}); diff != "" {
			t.Errorf("%s: removed and made (-want +got):\n%s", name, diff)
		}
	}
}
