// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// event is one thing that happens to a fleet; afterwards everybody acts, for so many rounds or, when that is 0, until nothing changes any more.
type event struct {
	title  string
	happen func(*fleet)
	rounds int
}

// TestInStepScenarios describes what becomes of the workers of a graph, step by step: the golden files are what a reviewer reads.
func TestInStepScenarios(t *testing.T) {
	pair := map[string]int{"prefill": 2, "decode": 4}
	edited := event{title: "edited", happen: func(f *fleet) { f.edit(1) }}
	cases := map[string]struct {
		replicas map[string]int
		strategy trellisv1alpha1.RolloutStrategy
		capacity int
		prepare  func(*fleet)
		events   []event
	}{
		"full-cluster":      {pair, shared("1", "0"), 6, nil, []event{edited}},
		"room-for-one-pair": {pair, shared("0", "1"), 9, nil, []event{edited}},
		"surge-that-has-no-room": {pair, shared("0", "1"), 6, nil, []event{
			edited, {title: "capacity for 1 prefill and 2 decode more", happen: func(f *fleet) { f.capacity += 3 }},
		}},
		"surge-or-in-place": {pair, shared("1", "1"), 6, nil, []event{edited}},
		"uneven":            {map[string]int{"prefill": 2, "decode": 5}, shared("1", "0"), 7, nil, []event{edited}},
		"one-prefill":       {map[string]int{"prefill": 1, "decode": 4}, shared("1", "0"), 5, nil, []event{edited}},
		"one-prefill-one-more-of-each": {map[string]int{"prefill": 1, "decode": 4}, shared("1", "0"), 7, func(f *fleet) {
			f.stated = map[string]Bounds{"prefill": {MaxSurge: 1}, "decode": {MaxSurge: 1}}
		}, []event{edited}},
		"large": {map[string]int{"prefill": 4, "decode": 8}, shared("25%", "25%"), 15, nil, []event{edited}},
		"never-serves": {pair, shared("1", "0"), 6, nil, []event{
			{title: "edited, and the new decode never serves", happen: func(f *fleet) { f.of["decode"].broken[1] = true; f.edit(1) }},
			{title: "edited again", happen: func(f *fleet) { f.edit(2) }},
		}},
		"two-quick-updates": {pair, shared("1", "0"), 6, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "edited again", happen: func(f *fleet) { f.edit(2) }},
		}},
		"reverted": {pair, shared("1", "0"), 6, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "reverted", happen: func(f *fleet) { f.edit(0) }},
		}},
		"paused": {pair, shared("1", "0"), 8, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "paused", happen: func(f *fleet) { f.paused = true }},
			{title: "a decode replica of each generation is lost", happen: func(f *fleet) { f.of["decode"].fail(0); f.of["decode"].fail(3) }},
			{title: "one of the old generation stops serving, and decode is scaled to 5", happen: func(f *fleet) {
				f.of["decode"].replicas[1].state = Starting
				f.of["decode"].broken[0] = true
				f.scale("decode", 5)
			}},
			{title: "resumed", happen: func(f *fleet) { f.paused = false }},
		}},
		"canary": {pair, shared("1", "0"), 6, func(f *fleet) { f.partition = ptr.To(intstr.FromInt32(1)) }, []event{
			{title: "edited, with a partition of 1", happen: func(f *fleet) { f.edit(1) }},
			{title: "a decode replica of each generation is lost", happen: func(f *fleet) { f.of["decode"].fail(0); f.of["decode"].fail(3) }},
			{title: "without a partition", happen: func(f *fleet) { f.partition = nil }},
		}},
		"moved-meanwhile": {pair, shared("1", "0"), 8, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "the nodes of decode replica 3 and prefill replica 1 are to go, which run the new generation", happen: func(f *fleet) {
				f.drain("decode", 3)
				f.drain("prefill", 1)
			}},
			{title: "the nodes of decode replica 0 are to go", happen: func(f *fleet) { f.capacity += 2; f.drain("decode", 0) }},
		}},
		"moved-while-paused": {pair, shared("1", "0"), 8, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "paused, and the nodes of a decode replica of each generation are to go", happen: func(f *fleet) {
				f.paused = true
				f.drain("decode", 0, 3)
			}},
			{title: "both are overdue", happen: func(f *fleet) { f.of["decode"].overdue() }},
			{title: "resumed", happen: func(f *fleet) { f.paused = false }},
		}},
		"scaled-meanwhile": {pair, shared("1", "0"), 9, nil, []event{
			{title: "edited", happen: func(f *fleet) { f.edit(1) }, rounds: 3},
			{title: "prefill scaled to 1", happen: func(f *fleet) { f.scale("prefill", 1) }, rounds: 2},
			{title: "prefill scaled to 3", happen: func(f *fleet) { f.scale("prefill", 3) }},
		}},
		"recreated": {pair, shared("1", "0"), 6, func(f *fleet) { f.recreate["decode"], f.of["decode"].want.Recreate = true, true }, []event{edited}},
		"none-served": {pair, shared("1", "0"), 6, func(f *fleet) {
			for _, s := range f.of {
				s.broken[0] = true
				for _, r := range s.replicas {
					r.state = Starting
				}
			}
		}, []event{edited}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(c.replicas, c.strategy, c.capacity)
			if c.prepare != nil {
				c.prepare(f)
			}
			for _, name := range f.names {
				f.report(name)
			}
			for _, name := range f.names {
				fmt.Fprintf(&f.log, "# %d %s, of which %d may be missing and %d more\n", c.replicas[name], name, f.bounds()[name].MaxUnavailable, f.bounds()[name].MaxSurge)
			}
			fmt.Fprintf(&f.log, "# capacity for %d pods\n", c.capacity)
			for _, e := range c.events {
				fmt.Fprintf(&f.log, "\n## %s\n", e.title)
				e.happen(f)
				for range e.rounds {
					f.round()
				}
				if e.rounds == 0 && !f.settle() {
					t.Fatalf("it does not settle:\n%s", f.log.String())
				}
			}
			golden.Check(t, filepath.Join("testdata", "instep", name+".golden"), f.log.String())
		})
	}
}

// TestInStepInRandomOrders lets users and the cluster act in any order, with reports that are late. No replica that goes takes the graph below what may be
// missing, no component has more replicas than it may, no generation more than are wanted, and capacity is given once. Once the users are done and there
// is capacity, all workers are of the last generation.
func TestInStepInRandomOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		f := drawFleet(number)
		failures := number(0, 3, "failures") == 3
		for range number(1, 300, "steps") {
			actOnFleet(t, f, number, failures)
		}
		last := number(0, 3, "last generation")
		f.edit(last)
		for _, s := range f.of {
			s.broken = map[int]bool{}
		}
		f.capacity = math.MaxInt32
		if !f.settle() {
			t.Fatalf("it does not settle:\n%s", f.log.String())
		}
		for name, s := range f.of {
			if s.serving(last) != s.want.Replicas || len(s.replicas) != s.want.Replicas {
				t.Fatalf("%d of %d %s serve, %d are there\n%s", s.serving(last), s.want.Replicas, name, len(s.replicas), f.log.String())
			}
		}
	})
}

// TestDrainsInStep has nodes leave in any order with what users and the cluster do. In step with the other components, no replica that leaves
// takes the graph below what may be missing; and in the end nothing is left on nodes that are to go.
func TestDrainsInStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		f := drawFleet(number)
		for range number(1, 200, "steps") {
			if number(0, 9, "drain") == 9 {
				f.drain(rapid.SampledFrom(f.names).Draw(t, "of"), number(0, 9, "replica"))
				continue
			}
			actOnFleet(t, f, number, false)
		}
		last := number(0, 3, "last generation")
		f.edit(last)
		for _, s := range f.of {
			s.broken = map[int]bool{}
		}
		f.capacity = math.MaxInt32
		if !f.settle() {
			t.Fatalf("it does not settle:\n%s", f.log.String())
		}
		for name, s := range f.of {
			if s.serving(last) != s.want.Replicas || len(s.replicas) != s.want.Replicas || len(s.leaving()) > 0 {
				t.Fatalf("%d of %d %s serve, %d are there, %v leave\n%s", s.serving(last), s.want.Replicas, name, len(s.replicas), s.leaving(), f.log.String())
			}
		}
	})
}

func drawFleet(number func(int, int, string) int) *fleet {
	replicas := map[string]int{"prefill": (number(0, 5, "prefill") + 2) % 6, "decode": (number(0, 9, "decode") + 4) % 10}
	if number(0, 2, "three components") == 2 {
		replicas["encode"] = number(1, 4, "encode")
	}
	unavailable, surge := number(0, 3, "U"), number(0, 3, "S")
	f := newFleet(replicas, shared(fmt.Sprint(unavailable), fmt.Sprint(surge)), 0)
	f.capacity = f.taken() + number(0, 12, "capacity")
	for _, name := range f.names {
		if number(0, 3, "stated") == 3 {
			u, s := number(0, 4, "U of "+name), number(0, 4, "S of "+name)
			f.stated[name] = Bounds{MaxUnavailable: u, MaxSurge: s}
			if u+s == 0 {
				f.stated[name] = Bounds{MaxUnavailable: 1}
			}
		}
	}
	return f
}

// actOnFleet is one thing that happens.
func actOnFleet(t *rapid.T, f *fleet, number func(int, int, string) int, failures bool) {
	name := rapid.SampledFrom(f.names).Draw(t, "component")
	s := f.of[name]
	switch number(0, 24, "what") { // rapid prefers low numbers
	case 0, 1, 2:
		checkControl(t, f, name, failures)
	case 3, 4:
		s.kubelet()
	case 5, 6:
		f.place(name)
	case 7, 8:
		s.terminator()
	case 9, 10, 11:
		f.report(name)
	case 12, 13:
		f.decide()
	case 14, 15, 16, 17: // all is reported, and decided by
		for _, name := range f.names {
			f.report(name)
		}
		f.decide()
	case 18, 19:
		f.edit(number(0, 3, "generation"))
	case 20:
		s.broken[number(0, 3, "generation")] = number(0, 1, "broken") == 1
	case 21:
		f.scale(name, number(0, 6, "replicas"))
	case 22, 23:
		f.capacity = max(number(0, 30, "capacity"), f.taken())
	default:
		if failures {
			s.fail(number(0, 9, "replica"))
		}
	}
	if taken := f.taken(); taken > f.capacity {
		t.Fatalf("%d pods have capacity, there is some for %d\n%s", taken, f.capacity, f.log.String())
	}
}

func (f *fleet) taken() int {
	n := 0
	for _, name := range f.names {
		n += f.pods[name] * f.of[name].taken()
	}
	return n
}

// fail has a replica lose a pod.
func (s *simulation) fail(ordinal int) {
	if r := s.replicas[ordinal]; r != nil && r.state >= Starting {
		r.state = Broken
	}
}

// checkControl lets a component's controller act.
func checkControl(t *rapid.T, f *fleet, name string, failures bool) {
	s := f.of[name]
	before, activeBefore := f.serves(), count(s.view(), Replica.active)
	one := f.earlier() <= 1 // for several, whose counts are not late, see TestSecondEditInTheMiddle
	plan := f.control(name)
	active, surge := count(s.view(), Replica.active), s.want.MaxSurge
	stays := func(r Replica) bool { return r.active() && !r.Outdated && !s.replicas[r.Ordinal].leaves }
	if len(s.want.Leaving) > 0 {
		surge = max(1, surge)
	}
	if most := s.want.Replicas + surge; active > max(activeBefore, most) {
		t.Fatalf("%d replicas of %s live, %d may\n%s", active, name, most, f.log.String())
	}
	if current := count(s.view(), stays); len(plan.Make) > 0 && current > s.want.Replicas {
		t.Fatalf("%d replicas of %s are of the new generation, %d are wanted\n%s", current, name, s.want.Replicas, f.log.String())
	}
	if least := f.mayServe(); !failures && one && f.serves() < min(before, least) {
		t.Fatalf("after %s acted, the workers serve %d %%, before %d %%, and %d %% have to stay\n%s%s", name, f.serves(), before, least, s.log.String(), f.log.String())
	}
}

// earlier counts the generations that are being replaced.
func (f *fleet) earlier() int {
	generations := map[string]bool{}
	for _, s := range f.of {
		for _, r := range s.view() {
			if r.Outdated && r.active() {
				generations[r.Generation] = true
			}
		}
	}
	return len(generations)
}

// mayServe is how much of the graph an update leaves alone at least, in percent.
func (f *fleet) mayServe() int {
	missing, _ := budget(f.components())
	left := one.minus(missing)
	return int(100 * left.n / left.d)
}

// TestShared counts the replicas of a budget that all components share.
func TestShared(t *testing.T) {
	tests := map[string]struct {
		strategy trellisv1alpha1.RolloutStrategy
		replicas []int
		want     []Bounds
	}{
		"a step is the ratio":          {shared("1", "0"), []int{2, 4}, []Bounds{{1, 0}, {2, 0}}},
		"rounded up":                   {shared("1", "1"), []int{2, 5}, []Bounds{{1, 1}, {3, 3}}},
		"percentages are of the steps": {shared("25%", "25%"), []int{4, 8}, []Bounds{{1, 1}, {2, 2}}},
		"surge rounds up":              {shared("25%", "25%"), []int{1, 4}, []Bounds{{0, 1}, {0, 4}}},
		"nothing would move":           {shared("0", "0"), []int{2, 4}, []Bounds{{1, 0}, {2, 0}}},
		"no more than there are":       {shared("9", "0"), []int{2, 4}, []Bounds{{2, 0}, {4, 0}}},
		"one is scaled to 0":           {shared("1", "0"), []int{0, 4}, []Bounds{{0, 0}, {1, 0}}},
		"all are":                      {shared("1", "0"), []int{0, 0}, []Bounds{{0, 0}, {0, 0}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Shared(test.strategy, test.replicas)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func ofV0(n int) []Kept { return []Kept{{"v0", n}} }

// TestInStep decides single steps.
func TestInStep(t *testing.T) {
	in := Bounds{MaxUnavailable: 1}
	tests := map[string]struct {
		components []Component
		want       []Step
	}{
		"the first step": {
			[]Component{{Replicas: 2, Bounds: in, Earlier: []Earlier{{"v0", 2}}}, {Replicas: 4, Bounds: Bounds{2, 0}, Earlier: []Earlier{{"v0", 4}}}},
			[]Step{{Keep: 1, Of: ofV0(1), Make: 1, Bounds: in}, {Keep: 2, Of: ofV0(2), Make: 2, Bounds: Bounds{2, 0}}},
		},
		"one component is not complete": {
			[]Component{{Replicas: 2, Bounds: in, Earlier: []Earlier{{"v0", 1}}, NewAvailable: 1}, {Replicas: 4, Bounds: Bounds{2, 0}, Earlier: []Earlier{{"v0", 2}}}},
			[]Step{{Keep: 1, Of: ofV0(1), Make: 1, Bounds: in}, {Keep: 2, Of: ofV0(2), Make: 2, Bounds: Bounds{2, 0}}},
		},
		"the largest numbers": {
			[]Component{
				{Replicas: 65535, Bounds: in, Earlier: []Earlier{{"v0", 65534}}, NewAvailable: 1}, {Replicas: 65536, Bounds: in, Earlier: []Earlier{{"v0", 65535}}, NewAvailable: 1},
			},
			[]Step{{Keep: 65534, Of: ofV0(65534), Make: 2, Bounds: in}, {Keep: 65534, Of: ofV0(65534), Make: 3, Bounds: in}},
		},
		"no replicas are wanted": {[]Component{{Replicas: 0}, {Replicas: 0}}, []Step{{}, {}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, InStep(test.components)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
