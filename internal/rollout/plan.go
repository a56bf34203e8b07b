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

// Next is the next step from these replicas. remembered are ordinals with a known former place, and most bounds how many further ones are
// made in one step, see Ordinals.
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

// step is a plan in the making; replicas removed by it are Leaving already.
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

// repair takes what cannot become whole any more.
func (s *step) repair() {
	for _, r := range s.in(func(r Replica) bool { return r.State == Broken }) {
		s.remove(r.Ordinal, "%s", r.Why)
		s.plan.Remove[len(s.plan.Remove)-1].Repair = true
	}
}

// roll replaces what is outdated: at once what does not serve (a half made replica would become whole with pods of two revisions), the
// rest as far as enough others do.
func (s *step) roll() {
	if s.paused() {
		for _, r := range s.in(func(r Replica) bool { return r.Unplaceable || r.State == Partial && r.Outdated && !r.InSet }) {
			why := "it runs an older revision and is not complete" // the rest of it would be of the new revision
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

// make fills up. An ordinal still taken by what is left of the one before has to wait until that is gone.
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

// allowed is how many replicas may be made now.
func (s *step) allowed() int {
	missing := s.missing(s.replicas)
	if s.Step == nil {
		return missing
	}
	return max(0, min(missing, s.Step.Make-s.lasting(s.replicas)))
}

func (s *step) in(is func(Replica) bool) []Replica { return filter(s.replicas, is) }

// floor is how many available replicas an update leaves alone.
func (g Group) floor() int { return max(0, g.Replicas-g.MaxUnavailable) }

func isAvailable(r Replica) bool { return r.State == Available }

func (s *step) blocked() bool {
	moving := len(s.plan.Remove)+len(s.plan.Make) > 0 ||
		len(s.in(func(r Replica) bool { return r.State == Leaving || r.State == Starting })) > 0
	return !moving && len(s.in(func(r Replica) bool { return r.State == Waiting })) > 0
}

// stopsAll reports whether nothing is made before a replica has stopped.
func (s *step) stopsAll(r Replica) bool { return r.Outdated && s.Recreate }

// WaitsForOthers is what a component waits for whose step is done while the steps of others are not.
const WaitsForOthers = "waits for the other workers of its generation"

// waits describes what has to happen before the next step.
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

// namesOf lists a few replicas by ordinal.
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
