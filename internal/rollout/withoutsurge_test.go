// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// An update is in place only where nothing but quota for a surplus replica is missing, and what is replaced leaves its own to its
// successor.
func TestLacksQuota(t *testing.T) {
	surge := Group{Replicas: 2, MaxSurge: 1}
	serves := Replica{State: Available, Outdated: true, KeepsQuota: true}
	denied := Replica{State: Waiting, NoQuota: true}
	with := func(r Replica, change func(*Replica)) Replica { change(&r); return r }
	for name, tc := range map[string]struct {
		group    Group
		replicas []Replica
		want     bool
	}{
		"a surplus replica without quota":      {surge, []Replica{serves, serves, denied}, true},
		"one that is not whole yet":            {surge, []Replica{serves, serves, with(denied, func(r *Replica) { r.State = Partial })}, true},
		"one of the revision serves":           {surge, []Replica{serves, {State: Available}, denied}, false},
		"a lost one is left":                   {surge, []Replica{serves, serves, denied, {State: Lost, Outdated: true}}, true},
		"it has quota, and waits for capacity": {surge, []Replica{serves, serves, {State: Waiting}}, false},
		"another one waits for capacity":       {surge, []Replica{serves, serves, denied, {State: Waiting}}, false},
		"there is none yet":                    {surge, []Replica{serves, serves}, false},
		"one does not serve":                   {surge, []Replica{serves, with(serves, func(r *Replica) { r.State = Starting }), denied}, false},
		"one stops":                            {surge, []Replica{serves, serves, denied, {State: Leaving}}, false},
		"a new one starts":                     {Group{Replicas: 2, MaxSurge: 2}, []Replica{serves, serves, denied, {State: Starting}}, false},
		"the successor needs other quota":      {surge, []Replica{serves, with(serves, func(r *Replica) { r.KeepsQuota = false }), denied}, false},
		"one may be missing":                   {Group{Replicas: 2, MaxSurge: 1, MaxUnavailable: 1}, []Replica{serves, serves, denied}, false},
		"none is wanted":                       {Group{MaxSurge: 1}, []Replica{denied}, false},
		"nothing is outdated":                  {surge, []Replica{{State: Available}, {State: Available}, denied}, false},
		"it is paused":                         {Group{Replicas: 2, MaxSurge: 1, Step: &Step{Paused: true}}, []Replica{serves, serves, denied}, false},
		"all stop first":                       {Group{Replicas: 2, Recreate: true, MaxSurge: 1}, []Replica{serves, serves, denied}, false},
		"all are stopped":                      {Group{Replicas: 2, Stopped: true, MaxSurge: 1}, []Replica{serves, serves, denied}, false},
	} {
		if got := tc.group.LacksQuota(tc.replicas); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUpdatesWithinQuota(t *testing.T) {
	for name, want := range map[string]Group{"quota-for-one": {Replicas: 1, MaxSurge: 1}, "quota-for-three": {Replicas: 3, MaxSurge: 1}} {
		t.Run(name, func(t *testing.T) {
			s := newQueued(want, 9, &quota{most: want.Replicas, of: map[int]bool{}})
			fmt.Fprintf(&s.log, "# %d wanted, none may be missing, %d more, quota for %d\n", want.Replicas, want.MaxSurge, s.quota.most)
			for _, title := range []string{"edited", "edited, with quota for one more"} {
				fmt.Fprintf(&s.log, "\n## %s\n", title)
				s.revision++
				if !s.settle() {
					t.Fatalf("it does not settle:\n%s", s.log.String())
				}
				s.quota.most++
			}
			golden.Check(t, filepath.Join("testdata", name+".golden"), s.log.String())
		})
	}
}

// However much quota there is beyond what the replicas have: an update ends, never misses more than one replica, and none where its surplus
// fits.
func TestQuotaNeverBlocksAnUpdate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Group{Replicas: rapid.IntRange(1, 5).Draw(t, "replicas"), MaxSurge: rapid.IntRange(1, 3).Draw(t, "S")}
		more := rapid.IntRange(0, 3).Draw(t, "more quota")
		s := newQueued(want, 20, &quota{most: want.Replicas + more, of: map[int]bool{}})
		s.revision++
		floor := want.Replicas
		if more == 0 {
			floor--
		}
		for range 200 {
			act := rapid.SampledFrom([]func() bool{s.terminator, s.kueue, s.placer, s.kubelet}).Draw(t, "who")
			act()
			s.controller()
			if s.available() < floor {
				t.Fatalf("%d replicas serve, %d have to:\n%s", s.available(), floor, s.log.String())
			}
		}
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
	})
}

// TestMoveWithoutQuota moves replicas of a component that has quota for those that are wanted, one of which keeps its own.
func TestMoveWithoutQuota(t *testing.T) {
	s := newQueued(Group{Replicas: 2, MaxUnavailable: 1}, 9, &quota{most: 2, of: map[int]bool{}, first: 1})
	fmt.Fprintf(&s.log, "# 2 wanted, quota for 2, and that of ordinal 0 is for it alone\n")
	for ordinal := range 2 {
		fmt.Fprintf(&s.log, "\n## the nodes of replica %d are to go\n", ordinal)
		s.drain(ordinal)
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
	}
	golden.Check(t, filepath.Join("testdata", "move-without-quota.golden"), s.log.String())
}

// However much quota there is beyond what the replicas have: moves end, and never miss more than one replica.
func TestQuotaNeverBlocksAMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		want := Group{Replicas: number(1, 4, "replicas"), MaxUnavailable: 1}
		q := &quota{most: want.Replicas + number(0, 2, "more quota"), of: map[int]bool{}, first: number(0, want.Replicas, "first")}
		s := newQueued(want, 30, q)
		for range number(1, 100, "steps") {
			act := rapid.SampledFrom([]func() bool{s.terminator, s.kueue, s.placer, s.kubelet}).Draw(t, "who")
			act()
			if number(0, 9, "drain") == 9 {
				s.drain(number(0, want.Replicas, "replica"))
			}
			s.controller()
			if s.available() < want.Replicas-1 {
				t.Fatalf("%d replicas serve:\n%s", s.available(), s.log.String())
			}
		}
		if !s.settle() {
			t.Fatalf("it does not settle:\n%s", s.log.String())
		}
		checkEnd(t, s)
		if len(s.leaving()) > 0 {
			t.Fatalf("replicas are left on nodes that are to go:\n%s", s.log.String())
		}
	})
}
