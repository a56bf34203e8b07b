// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
)

// One reconcile makes a batch, whatever is wanted, and says that there is more.
func TestBatches(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, size int32
		want           int
		more           bool
	}{
		"all in one":               {replicas: 128, size: 4, want: 512},
		"one more than a batch":    {replicas: 513, size: 1, want: 512, more: true},
		"a replica beyond a batch": {replicas: 1, size: 4096, want: 512, more: true},
		"any number of replicas":   {replicas: math.MaxInt32, size: 1, want: 512, more: true},
		"any number of nodes":      {replicas: 1, size: math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(c.replicas, c.size)
			got := stepsOf(sg, nil, attempts{}, plan(sg, nil))
			if len(got.create) != c.want || got.more != c.more {
				t.Errorf("%d pods and more %v, want %d and %v", len(got.create), got.more, c.want, c.more)
			}
			sg.Spec.Workload = "LeaderWorkerSet"
			if got := stepsOf(sg, nil, attempts{}, plan(sg, nil)); len(got.make) > batch || len(got.create) > 0 {
				t.Errorf("%d sets and %d pods", len(got.make), len(got.create))
			}
		})
	}
}

// The delay doubles with each refusal up to half a minute. A change of the spec, a success and another group of the name end it.
func TestRefusals(t *testing.T) {
	clock := time.Unix(0, 0)
	r := refusals{now: func() time.Time { return clock }}
	sg, refused := group(1, 1), errors.New("exceeded quota")
	var delays []time.Duration
	for range 7 {
		r.note(sg, creationturns.Rests{Others: true}, refused)
		a := r.wait(sg)
		if !errors.Is(a.refused, refused) {
			t.Errorf("it waits for %v", a.refused)
		}
		delays = append(delays, a.again)
		clock = clock.Add(a.again - time.Nanosecond)
		if r.wait(sg).again == 0 {
			t.Error("it does not wait to the end")
		}
		clock = clock.Add(time.Nanosecond)
		if r.wait(sg) != (allowance{}) {
			t.Error("it waits longer")
		}
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	r.note(sg, creationturns.Rests{Others: true}, refused)
	changed, successor := sg.DeepCopy(), sg.DeepCopy()
	changed.Generation++
	successor.UID = "another"
	if r.wait(changed).again != 0 || r.wait(successor).again != 0 || r.has(successor) {
		t.Error("a changed group, or another of its name, waits")
	}
	r.retryIn(sg.Namespace)
	if r.wait(sg).again != 0 || !r.has(sg) {
		t.Error("it waits although it may be tried again, or begins with many creates")
	}
	r.note(sg, creationturns.Rests{Others: true}, nil)
	if r.wait(sg).again != 0 || r.has(sg) || len(r.byGroup) > 0 {
		t.Error("it waits after a success")
	}
}

// Where gangs are created in turn, refused successors and other refused gangs wait independently of each other.
func TestRefusalsInTurn(t *testing.T) {
	clock := time.Unix(0, 0)
	r := refusals{now: func() time.Time { return clock }}
	sg, scaleOut, successor := group(1, 1), errors.New("scale-out"), errors.New("successor")
	check := func(want creationturns.Rests, after time.Duration, refused error) {
		t.Helper()
		if which, a := r.rests(sg); which != want || a.again != after || !errors.Is(a.refused, refused) {
			t.Errorf("%+v rest, for %s, after %v", which, a.again, a.refused)
		}
	}
	others, successors := creationturns.Rests{Others: true}, creationturns.Rests{Successors: true}
	r.note(sg, others, scaleOut)
	r.note(sg, others, scaleOut)
	check(others, 2*time.Second, scaleOut)
	r.note(sg, successors, successor)
	check(creationturns.All, time.Second, successor)
	r.note(sg, successors, nil)
	check(others, 2*time.Second, scaleOut)
	r.forget(types.NamespacedName{Namespace: sg.Namespace, Name: sg.Name})
	check(creationturns.Rests{}, 0, nil)
}

// Successors are created first, and not in one round with others.
func TestSuccessorsAreCreatedFirst(t *testing.T) {
	sg := group(4, 1)
	s := stepsOf(sg, nil, attempts{}, plan(sg, nil))
	s.keyOf = func(ordinal int32) creationturns.Key { return creationturns.Key{Ordinal: ordinal} }
	s.decisions = map[creationturns.Key]creationturns.Decision{{Ordinal: 1}: {Succeeds: true}, {Ordinal: 3}: {Succeeds: true}}
	var rounds [][]int32
	for gangs := s.gangs(); len(gangs) > 0; {
		var round []int32
		for range alone(gangs, parallel) {
			round, gangs = append(round, gangs[0].key.Ordinal), gangs[1:]
		}
		rounds = append(rounds, round)
	}
	if diff := cmp.Diff([][]int32{{1, 3}, {0, 2}}, rounds); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
}
