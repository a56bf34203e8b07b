// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// A replica that another operator has released, which the cache does not show yet, is not placed again.
func TestWhatAnotherReleasedIsNotPlacedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := newOpening(t)
		r, theirs := newRecordStore(t, b), (&assignment.Record{}).Clone()
		theirs.Assign("theirs", gang.Key{Component: "work"}, topology.Path{"z", "b"}, []string{"b0", "b1"}, b.clock.Now()) // full by now
		if err := b.s.placements.write(t.Context(), o.DGD, recorded{}, theirs); err != nil {
			t.Fatal(err)
		}
		live := o.Pods[0].DeepCopy()
		opened(live, "theirs", map[string]string{"z": "z", "r": "b"})
		if err := r.Create(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if o.Pods[0].Spec.NodeName != "" || !slices.Contains(slices.Collect(maps.Keys(recordIn(t, r, o).Gangs)), "theirs") {
			t.Fatalf("pod on node %q, record %q", o.Pods[0].Spec.NodeName, recordedAs(recordIn(t, r, o)))
		}
		if err := r.Delete(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		b.clock.Step(retryAfter)
		b.settle()
		bound := []string{"bound work-0: 2. in z/a"} // unless the pods were bound only after the look at them
		if got := recordedAs(recordIn(t, r, o)); !slices.Equal(got, []string{"Assigned work-0: 2. in z/a a0+a1"}) && !slices.Equal(got, bound) {
			t.Errorf("when it is gone: record %q", got)
		}
		b.pass(retryAfter)
		b.settle()
		if got := recordedAs(recordIn(t, r, o)); !slices.Equal(got, bound) || o.Pods[0].Spec.NodeName != "a0" || o.Pods[1].Spec.NodeName != "a1" {
			t.Errorf("later: pods on nodes %q and %q, record %q", o.Pods[0].Spec.NodeName, o.Pods[1].Spec.NodeName, got)
		}
	})
}

// TestBoundByAnotherIsNotPlacedAgain: a replica that the record shows as bound, and whose pods the cache does not show yet, is not placed again.
func TestBoundByAnotherIsNotPlacedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := newOpening(t)
		r, theirs := newRecordStore(t, b), (&assignment.Record{}).Clone()
		theirs.Bound[gang.Key{Component: "work"}] = assignment.Place{Attempt: 1, Domain: topology.Path{"z", "b"}}
		if err := b.s.placements.write(t.Context(), o.DGD, recorded{}, theirs); err != nil {
			t.Fatal(err)
		}
		live := o.Pods[0].DeepCopy()
		opened(live, "theirs", map[string]string{"z": "z", "r": "b"})
		live.Spec.NodeName = "b0"
		if err := r.Create(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if place, _ := recordIn(t, r, o).PlaceOf(gang.Key{Component: "work"}); place.Attempt > 1 || o.Pods[0].Spec.NodeName != "" {
			t.Fatalf("placed again at attempt %d, pod on node %q: another operator's pods serve", place.Attempt, o.Pods[0].Spec.NodeName)
		}
		if err := r.Delete(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		b.pass(retryAfter)
		b.settle()
		b.pass(retryAfter)
		b.settle()
		if got := recordedAs(recordIn(t, r, o)); !slices.Equal(got, []string{"bound work-0: 2. in z/a"}) {
			t.Errorf("when they are gone: record %q", got)
		}
	})
}

// TestDisplaced: which replicas are read past the cache before a record takes their place.
func TestDisplaced(t *testing.T) {
	key := gang.Key{Component: "work"}
	for name, c := range map[string]struct {
		was, now func(*assignment.Record)
		want     bool
	}{
		"bound, and now without pods": {
			was:  func(r *assignment.Record) { r.Bound[key] = assignment.Place{Attempt: 1} },
			now:  func(r *assignment.Record) { r.Former[key] = assignment.Place{Attempt: 1} },
			want: true,
		},
		"bound, and not wanted any more": {
			was: func(r *assignment.Record) { r.Bound[key] = assignment.Place{Attempt: 1} }, now: func(*assignment.Record) {},
		},
		"bound, and placed again": {
			was:  func(r *assignment.Record) { r.Bound[key] = assignment.Place{Attempt: 1} },
			now:  func(r *assignment.Record) { r.Assign("one", key, nil, []string{"a0"}, time.Time{}) },
			want: true,
		},
		"bound still": {
			was: func(r *assignment.Record) { r.Bound[key] = assignment.Place{Attempt: 1} },
			now: func(r *assignment.Record) { r.Bound[key] = assignment.Place{Attempt: 1} },
		},
		"assigned, and now without a place": {
			was:  func(r *assignment.Record) { r.Assign("one", key, nil, []string{"a0"}, time.Time{}) },
			now:  func(r *assignment.Record) { r.Former[key] = assignment.Place{Attempt: 1} },
			want: true,
		},
		"a former place": {
			was: func(r *assignment.Record) { r.Former[key] = assignment.Place{Attempt: 1} },
			now: func(r *assignment.Record) { r.Former[key] = assignment.Place{Attempt: 1} },
		},
	} {
		o := asking(2, 1, 0)
		was, now := (&assignment.Record{}).Clone(), (&assignment.Record{}).Clone()
		c.was(was)
		c.now(now)
		o.Record = was
		if got := displaced(o, now, nil); got[o.ReplicaName(key)] != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Without a read past the cache it is not known whether a record is the newest one.
func TestTheNewestRecordIsRead(t *testing.T) {
	b, o := newBench(t, Options{}), asking(2, 1, 0)
	r := newRecordStore(t, b)
	placements := b.s.placements
	if err := placements.write(t.Context(), o.DGD, recorded{}, (&assignment.Record{}).Clone()); err != nil {
		t.Fatal(err)
	}
	was, err := placements.of(t.Context(), o.DGD)
	if err != nil {
		t.Fatal(err)
	}
	placements.live = interceptor.NewClient(fake.NewClientBuilder().WithScheme(r.Scheme()).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		},
	})
	if err := placements.isNewest(t.Context(), o.DGD, was); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v, want the error of the read", err)
	}
}
