// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// simulated is one replica in a world without Kubernetes.
type simulated struct {
	state    State
	revision int
	created  int64
	// placed: it takes capacity, until it is gone.
	placed bool
	// leaves: its nodes are to go, and their capacity with them. overdue: it has waited long enough for a successor.
	leaves, overdue bool
}

// simulation is a component and the actors around it: they create and stop pods, find capacity, and make pods serve. Each act is a small
// step of its own, so that a test owns the order.
type simulation struct {
	want Group
	// revision wanted; a broken one never serves.
	revision int
	broken   map[int]bool
	// capacity for so many replicas.
	capacity   int
	quota      *quota
	now        int64
	replicas   map[int]*simulated
	remembered map[int]bool
	// lost is how often a replica did not end.
	lost int
	log  strings.Builder
}

// quota of a component in a queue, for at most so many replicas. A replica and its successors of the same ordinal have it.
type quota struct {
	most int
	of   map[int]bool
	// first ordinals keep their quota while they have no replica.
	first int
	// inPlace is the revision that is rolled out in place.
	inPlace int
}

func newSimulation(want Group, capacity int) *simulation { return newQueued(want, capacity, nil) }

func newQueued(want Group, capacity int, q *quota) *simulation {
	s := &simulation{
		quota: q, want: want, capacity: capacity, broken: map[int]bool{}, replicas: map[int]*simulated{}, remembered: map[int]bool{},
	}
	s.settle()
	s.log.Reset()
	return s
}

func (s *simulation) view() []Replica {
	out := make([]Replica, 0, len(s.replicas))
	for _, ordinal := range slices.Sorted(maps.Keys(s.replicas)) {
		r := s.replicas[ordinal]
		one := Replica{
			Ordinal: ordinal, State: r.state, Outdated: r.revision != s.revision, Generation: generation(r.revision), Created: r.created, Why: "it lost a pod",
		}
		if s.quota != nil {
			one.KeepsQuota = s.quota.of[ordinal]
			one.NoQuota = !one.KeepsQuota && len(s.quota.of) >= s.quota.most
		}
		out = append(out, one)
	}
	return out
}

func generation(revision int) string { return fmt.Sprintf("v%d", revision) }

func (s *simulation) memory() []int { return slices.Sorted(maps.Keys(s.remembered)) }

// controller carries one plan out and returns it.
func (s *simulation) controller() Plan {
	s.now++
	s.want.Leaving = s.leaving()
	want := s.want
	if s.quota != nil && want.LacksQuota(s.view()) {
		s.quota.inPlace = s.revision
	}
	if slices.ContainsFunc(s.view(), Replica.denied) {
		s.overdue()
		want.Leaving = s.leaving()
	}
	if s.quota != nil && s.quota.inPlace == s.revision && s.revision > 0 {
		bounds := Bounds{want.MaxUnavailable, want.MaxSurge}.InPlace()
		want.MaxUnavailable, want.MaxSurge = bounds.MaxUnavailable, bounds.MaxSurge
	}
	plan := want.Next(s.view(), s.memory(), 100)
	for _, r := range plan.Remove {
		s.replicas[r.Ordinal].state = Leaving
		fmt.Fprintf(&s.log, "  take %d: %s\n", r.Ordinal, r.Why)
	}
	for _, ordinal := range plan.Make {
		s.replicas[ordinal] = &simulated{state: Waiting, revision: s.revision, created: s.now}
		fmt.Fprintf(&s.log, "  make %d\n", ordinal)
	}
	for ordinal := range s.remembered {
		if !slices.Contains(s.want.Ordinals(s.view(), s.memory(), 100), ordinal) {
			delete(s.remembered, ordinal)
		}
	}
	return plan
}

// leaving lists the replicas that are to leave their nodes.
func (s *simulation) leaving() (out []Leave) {
	for _, ordinal := range slices.Sorted(maps.Keys(s.replicas)) {
		if r := s.replicas[ordinal]; r.leaves && r.state >= Starting {
			out = append(out, Leave{Ordinal: ordinal, Overdue: r.overdue})
		}
	}
	return out
}

// drain has the nodes of placed replicas leave.
func (s *simulation) drain(ordinals ...int) {
	for _, ordinal := range ordinals {
		if r := s.replicas[ordinal]; r != nil && r.placed && r.state >= Starting && !r.leaves {
			r.leaves = true
			s.capacity--
		}
	}
}

// stay takes the request back.
func (s *simulation) stay() {
	for _, r := range s.replicas {
		if r.leaves && r.state >= Starting {
			r.leaves, r.overdue = false, false
			s.capacity++
		}
	}
}

// overdue ends the time that replicas wait for a successor.
func (s *simulation) overdue() {
	for _, r := range s.replicas {
		r.overdue = r.leaves
	}
}

// terminator ends the first replica that is on its way out.
func (s *simulation) terminator() bool {
	for _, ordinal := range slices.Sorted(maps.Keys(s.replicas)) {
		if s.replicas[ordinal].state == Leaving {
			delete(s.replicas, ordinal)
			return true
		}
	}
	return false
}

// nodesReturn lets the kubelets of lost replicas confirm their end.
func (s *simulation) nodesReturn() {
	for _, r := range s.replicas {
		if r.state == Lost {
			r.state = Leaving
		}
	}
}

// placer gives the first waiting replica its place when there is capacity.
func (s *simulation) placer() bool {
	taken := s.taken()
	for _, ordinal := range slices.Sorted(maps.Keys(s.replicas)) {
		if r := s.replicas[ordinal]; r.state == Waiting && taken < s.capacity && (s.quota == nil || s.quota.of[ordinal]) {
			r.placed, r.state = true, Starting
			s.remembered[ordinal] = true
			return true
		}
	}
	return false
}

// kueue takes quota back that no replica uses or will, and gives the first replica without any its own.
func (s *simulation) kueue() bool {
	if s.quota == nil {
		return false
	}
	due := s.want.Ordinals(s.view(), s.memory(), 100)
	for ordinal := range s.quota.of {
		if s.replicas[ordinal] == nil && !slices.Contains(due, ordinal) && ordinal >= s.quota.first {
			delete(s.quota.of, ordinal)
		}
	}
	for _, r := range s.view() {
		if r.active() && !s.quota.of[r.Ordinal] && len(s.quota.of) < s.quota.most {
			s.quota.of[r.Ordinal] = true
			return true
		}
	}
	return false
}

// taken counts the replicas that take capacity.
func (s *simulation) taken() int {
	taken := 0
	for _, r := range s.replicas {
		if r.placed && !r.leaves {
			taken++
		}
	}
	return taken
}

// kubelet makes the first replica serve that can.
func (s *simulation) kubelet() bool {
	for _, ordinal := range slices.Sorted(maps.Keys(s.replicas)) {
		if r := s.replicas[ordinal]; r.state == Starting && !s.broken[r.revision] {
			r.state = Available
			return true
		}
	}
	return false
}

// settle lets everybody act until nothing changes any more; false: there is no end.
func (s *simulation) settle() bool {
	for range 500 {
		if !s.round() {
			return true
		}
	}
	return false
}

// round lets each actor act once and reports whether anything moved.
func (s *simulation) round() bool {
	plan := s.controller()
	s.draw(plan)
	moved := len(plan.Remove)+len(plan.Make) > 0
	for _, act := range []func() bool{s.terminator, s.kueue, s.placer, s.kubelet} {
		moved = act() || moved
	}
	return moved
}

var words = map[State]string{Lost: "lost", Leaving: "leaving", Broken: "broken", Partial: "partial", Waiting: "waiting", Starting: "starting", Available: "serves"}

func (s *simulation) draw(plan Plan) {
	parts := make([]string, 0, len(s.replicas))
	for _, r := range s.view() {
		part := fmt.Sprintf("%d:v%d %s", r.Ordinal, s.replicas[r.Ordinal].revision, words[r.State])
		if s.replicas[r.Ordinal].leaves {
			part += ", leaves"
		}
		parts = append(parts, part)
	}
	line := strings.Join(parts, "  ")
	if plan.Blocked {
		line += "  BLOCKED"
	}
	if plan.Waits != "" {
		line += "  (" + plan.Waits + ")"
	}
	fmt.Fprintln(&s.log, strings.TrimSpace(line))
}

func (s *simulation) available() int {
	return count(s.view(), func(r Replica) bool { return r.State == Available })
}
