// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Next returns the next step. remembered lists the ordinals whose former place is known. The parameter most limits the other new ordinals
// of one step; see Ordinals.
func (g Group) Next(replicas []Replica, remembered []int, most int) Plan {
	s := step{Group: g, replicas: slices.Clone(replicas)}
	s.repair()
	if g.Stopped {
		s.removeOutdated("every replica stops before any is recreated")
		s.plan.Waits = s.waits()
		return s.plan
	}
	s.scaleIn()
	s.roll()
	s.move()
	s.make(remembered, most)
	s.plan.Waits = s.waits()
	s.plan.Blocked = s.blocked()
	return s.plan
}

// step is a plan under construction. Replicas that it removes have the state Leaving.
type step struct {
	Group
	replicas []Replica
	plan     Plan
}

func (s *step) remove(ordinal int, why string, args ...any) {
	s.plan.Remove = append(s.plan.Remove, Removal{Ordinal: ordinal, Why: fmt.Sprintf(why, args...)})
	for i := range s.replicas {
		if s.replicas[i].Ordinal == ordinal {
			s.replicas[i].State = Leaving
		}
	}
}

// repair removes broken replicas.
func (s *step) repair() {
	for _, r := range s.in(func(r Replica) bool { return r.State == Broken }) {
		s.remove(r.Ordinal, "%s", r.Why)
		s.plan.Remove[len(s.plan.Remove)-1].Repair = true
	}
}

// roll replaces outdated replicas. It immediately replaces replicas that do not serve, because a partial replica would otherwise get pods
// of two revisions. It replaces a serving replica only if enough other replicas serve.
func (s *step) roll() {
	if s.paused() {
		for _, r := range s.in(func(r Replica) bool { return r.Unplaceable || r.State == Partial && r.Outdated && !r.InSet }) {
			why := "it runs an older revision and is not complete" // its missing pods would have the new revision
			if r.Unplaceable {
				why = "it waits for a place and has pods of another replica size or of two revisions"
			}
			s.remove(r.Ordinal, "%s", why)
		}
		return
	}
	if s.Recreate {
		s.removeOutdated("all replicas of an older revision stop before any is recreated")
		return
	}
	for _, r := range s.in(func(r Replica) bool { return r.active() && r.Outdated && r.State < Available }) {
		s.remove(r.Ordinal, "it runs an older revision and does not serve")
	}
	available, floor, staying := len(s.in(isAvailable)), s.floor(), s.staying()
	serving := s.in(func(r Replica) bool { return isAvailable(r) && r.Outdated && !staying[r.Ordinal] })
	slices.SortFunc(serving, s.CompareLoss)
	for _, r := range serving[:min(len(serving), max(0, available-floor))] {
		s.remove(r.Ordinal, "it runs an older revision: %d available > %d that have to stay", available, floor)
		available--
	}
}

func (s *step) paused() bool { return s.Step != nil && s.Step.Paused }

func (s *step) removeOutdated(why string) {
	for _, r := range s.in(func(r Replica) bool { return r.active() && r.Outdated }) {
		s.remove(r.Ordinal, "%s", why)
	}
}

// make creates missing replicas. It does not create a replica under an ordinal that a leaving replica still uses.
func (s *step) make(remembered []int, most int) {
	if s.Recreate && !s.paused() && slices.ContainsFunc(s.replicas, func(r Replica) bool { return r.Outdated }) {
		return
	}
	there := map[int]State{}
	for _, r := range s.replicas {
		there[r.Ordinal] = r.State
	}
	for _, ordinal := range s.ordinals(s.replicas, remembered, most, s.allowed()) {
		if state, exists := there[ordinal]; !exists || state == Partial {
			s.plan.Make = append(s.plan.Make, ordinal)
		}
	}
}

// allowed returns how many replicas may be created now.
func (s *step) allowed() int {
	missing := s.missing(s.replicas)
	if s.Step == nil {
		return missing
	}
	return max(0, min(missing, s.Step.Make-s.lasting(s.replicas)))
}

func (s *step) in(is func(Replica) bool) []Replica { return filter(s.replicas, is) }

// floor returns how many available replicas must remain during an update.
func (g Group) floor() int { return max(0, g.Replicas-g.MaxUnavailable) }

func isAvailable(r Replica) bool { return r.State == Available }

func (s *step) blocked() bool {
	moving := len(s.plan.Remove)+len(s.plan.Make) > 0 ||
		len(s.in(func(r Replica) bool { return r.State == Leaving || r.State == Starting })) > 0
	return !moving && len(s.in(func(r Replica) bool { return r.State == Waiting })) > 0
}

// stopsAll reports whether r must stop before any replica is created.
func (s *step) stopsAll(r Replica) bool { return r.Outdated && s.Recreate }

// WaitsForOthers is the message of a component that has completed its own step and waits until other components complete theirs.
const WaitsForOthers = "waits for the other workers of its generation"

// waits returns a message that names what the component waits for; "" for nothing.
func (s *step) waits() string {
	for _, w := range []struct {
		state State
		what  string
		no    bool // quota
	}{
		{state: Leaving, what: "to stop"}, {state: Lost, what: "to stop, which no kubelet confirms"}, {state: Starting, what: "to become ready"},
		{state: Waiting, what: "to find capacity"}, {state: Waiting, what: "to get quota", no: true}, {state: Partial, what: "to be made"},
	} {
		if found := s.in(func(r Replica) bool {
			return r.State == w.state && (w.state != Lost || s.stopsAll(r)) && (w.state != Waiting || r.NoQuota == w.no)
		}); len(found) > 0 {
			return "waits for " + namesOf(found) + " " + w.what
		}
	}
	switch {
	case len(s.plan.Make) > 0:
		return "is being made"
	case s.paused():
		return "is paused"
	case s.Step != nil && s.missing(s.replicas)+len(s.in(func(r Replica) bool { return r.active() && r.Outdated })) > 0:
		return WaitsForOthers
	}
	return ""
}

// namesOf returns a text with the sorted ordinals of the replicas. It shortens a long list.
func namesOf(replicas []Replica) string {
	slices.SortFunc(replicas, func(a, b Replica) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	var names []string
	for _, r := range replicas {
		names = append(names, strconv.Itoa(r.Ordinal))
	}
	if len(names) > 4 {
		names = limit.First(names, 3, "")
	}
	if len(names) == 1 {
		return "replica " + names[0]
	}
	return "replicas " + strings.Join(names, ", ")
}
