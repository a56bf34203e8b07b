// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRandomOrders lets users and the cluster act in any order. Whatever happens: no step takes an update below its floor or above its ceiling,
// ordinals stay low, and once the users are done and there is capacity, the component ends whole, current and quiet.
func TestRandomOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		want := Group{Replicas: number(0, 5, "replicas"), MaxUnavailable: number(0, 3, "U"), MaxSurge: number(0, 3, "S"), Recreate: number(0, 9, "recreate") == 0}
		if want.MaxUnavailable+want.MaxSurge == 0 {
			want.MaxUnavailable = 1
		}
		s := newSimulation(want, number(0, 9, "capacity"))
		highest := 8 + max(1, want.MaxSurge) // no more than 8 replicas are ever wanted
		for range number(1, 60, "steps") {
			act(s, number)
			checkStep(t, s, highest+s.lost)
		}
		if want.Recreate || number(0, 1, "the nodes return") == 1 {
			s.nodesReturn()
		}
		s.want.Stopped, s.broken = false, map[int]bool{}
		s.overdue()
		lost := count(s.view(), func(r Replica) bool { return r.State == Lost }) // they hold their capacity, on nodes that are not ready
		s.capacity = max(s.capacity, s.want.Replicas+max(1, s.want.MaxSurge)+lost)
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
	})
}

// act is one thing that happens.
func act(s *simulation, number func(int, int, string) int) {
	switch number(0, 21, "what") {
	case 0:
		s.want.Replicas = number(0, 8, "replicas")
	case 1:
		s.revision = number(0, 3, "revision")
	case 2:
		s.broken[number(0, 3, "revision")] = number(0, 1, "broken") == 1
	case 3:
		s.capacity = number(0, 12, "capacity")
	case 4, 5:
		for _, ordinal := range sortedKeys(s.replicas) { // a pod of some replica dies, or one stops serving
			if r := s.replicas[ordinal]; r.state >= Starting && number(0, 4, "this one") == 0 {
				r.state = []State{Broken, Starting}[number(0, 1, "dies")]
				break
			}
		}
	case 6:
		s.want.Stopped = number(0, 3, "stopped") == 0
	case 7, 8, 9:
		s.terminator()
	case 14: // the node of a replica that is to end is not ready
		for _, ordinal := range sortedKeys(s.replicas) {
			if r := s.replicas[ordinal]; r.state == Leaving {
				r.state = Lost
				s.lost++
				break
			}
		}
	case 15:
		s.nodesReturn()
	case 18, 19: // the nodes of some replica are to go
		if all := sortedKeys(s.replicas); len(all) > 0 {
			s.drain(all[number(0, len(all)-1, "this one")])
		}
	case 20:
		s.overdue()
	case 21:
		s.stay()
	case 10, 11:
		s.placer()
	case 12, 13:
		s.kubelet()
	}
}

func sortedKeys(m map[int]*simulated) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// checkStep lets the controller act once.
func checkStep(t *rapid.T, s *simulation, highest int) {
	before, activeBefore := s.available(), count(s.view(), Replica.active)
	wasCurrent, surge, floor := map[int]bool{}, s.want.MaxSurge, s.want.floor()
	for _, r := range s.view() {
		moves := s.replicas[r.Ordinal].leaves && r.State >= Starting
		overdue := moves && (s.replicas[r.Ordinal].overdue || s.want.Recreate)
		wasCurrent[r.Ordinal] = r.State == Available && !r.Outdated && !overdue
		if moves {
			surge = max(1, surge)
		}
		if overdue {
			floor = min(floor, max(0, s.want.Replicas-1))
		}
	}
	plan := s.controller()
	view := s.view()
	if !s.want.Stopped && !s.want.Recreate && s.available() < min(before, floor) {
		t.Fatalf("%d replicas serve, %d did, %d have to stay\n%s", s.available(), before, floor, s.log.String())
	}
	active := count(view, Replica.active)
	if active > max(activeBefore, s.want.Replicas+surge) || active > s.want.Replicas+surge && len(plan.Make) > 0 {
		t.Fatalf("%d replicas live, %d wanted and %d more allowed\n%s", active, s.want.Replicas, surge, s.log.String())
	}
	if current := count(view, func(r Replica) bool { return r.active() && !r.Outdated && !s.replicas[r.Ordinal].leaves }); len(plan.Make) > 0 &&
		current > s.want.Replicas {
		t.Fatalf("%d replicas of the wanted revision, %d wanted\n%s", current, s.want.Replicas, s.log.String())
	}
	for _, ordinal := range plan.Make {
		if ordinal >= highest {
			t.Fatalf("ordinal %d is out of bounds\n%s", ordinal, s.log.String())
		}
	}
	kept := count(view, func(r Replica) bool { return wasCurrent[r.Ordinal] && r.State == Available })
	for _, r := range plan.Remove {
		if wasCurrent[r.Ordinal] && kept < s.want.Replicas && !s.want.Stopped {
			t.Fatalf("replica %d serves the wanted revision and was taken, though only %d of %d do\n%s", r.Ordinal, kept, s.want.Replicas, s.log.String())
		}
	}
}

func checkEnd(t *rapid.T, s *simulation) {
	view, all := filter(s.view(), func(r Replica) bool { return r.State != Lost }), s.view()
	if len(view) != s.want.Replicas || s.available() != s.want.Replicas || slices.ContainsFunc(view, func(r Replica) bool { return r.Outdated }) {
		t.Fatalf("it ended as %+v, wanted %+v\n%s", view, s.want, s.log.String())
	}
	if plan := s.want.Next(all, s.memory(), 100); len(plan.Remove)+len(plan.Make) > 0 || plan.Blocked || plan.Waits != "" {
		t.Fatalf("nothing is to be done, and the plan is %+v", plan)
	}
}

// TestFullClusterNeverBlocksAnUpdate: with capacity for exactly the wanted replicas, an update goes through as long as one of them may be missing.
func TestFullClusterNeverBlocksAnUpdate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "replicas")
		s := newSimulation(Group{Replicas: n, MaxUnavailable: rapid.IntRange(1, 3).Draw(t, "U"), MaxSurge: rapid.IntRange(0, 3).Draw(t, "S")}, n)
		s.revision++
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
	})
}
