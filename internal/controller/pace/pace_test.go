// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWrites(t *testing.T) {
	at := time.Unix(1000, 0)
	w := &Writes{Now: func() time.Time { return at }}
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	left := func(name types.NamespacedName, want time.Duration) {
		t.Helper()
		if got := w.Left(name); got != want {
			t.Errorf("%s of %s left, want %s", got, name, want)
		}
	}
	left(a, 0)
	w.Wrote(a)
	left(a, Interval)
	left(b, 0)
	at = at.Add(Interval / 4)
	left(a, Interval*3/4)
	at = at.Add(-Interval) // the clock was set back: no one waits for it
	left(a, 0)
	w.Wrote(a)
	at = at.Add(Interval)
	left(a, 0)
	if len(w.last) != 0 {
		t.Errorf("%d objects remembered whose interval is over", len(w.last))
	}
	w.Wrote(a)
	w.Forget(a)
	left(a, 0)
}

// The first status waits for an interval from the first look, once.
func TestFirst(t *testing.T) {
	at := time.Unix(1000, 0)
	w := &Writes{Now: func() time.Time { return at }}
	a := types.NamespacedName{Namespace: "ns", Name: "a"}
	left := func(want time.Duration) {
		t.Helper()
		if got := w.First(a, Interval); got != want {
			t.Errorf("%s left, want %s", got, want)
		}
	}
	left(Interval)
	at = at.Add(Interval / 4)
	left(Interval * 3 / 4)
	at = at.Add(Interval)
	left(0)
	left(0)
	at = at.Add(-time.Hour) // the clock was set back: no one waits for it
	left(0)
	for _, end := range []func(types.NamespacedName){w.Wrote, w.Forget} {
		end(a)
		if len(w.begun) != 0 {
			t.Error("an object is remembered whose first status is written, or that is gone")
		}
		left(Interval)
	}
}

// Where many objects wait, each waits longer, up to a bound. One that has nothing to write any more, is written or gone does not count.
func TestManyWait(t *testing.T) {
	at := time.Unix(1000, 0)
	w := &Writes{Now: func() time.Time { return at }}
	name := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)} }
	begin := func(from, to int) (last time.Duration) {
		for i := from; i < to; i++ {
			last = w.First(name(i), Interval)
		}
		return last
	}
	for _, step := range []struct {
		objects int
		want    time.Duration
	}{
		{Rate, Interval}, {2 * Rate, 2 * Interval}, {Longest * Rate, Longest * Interval}, {10 * Longest * Rate, Longest * Interval},
	} {
		if got := begin(len(w.waiting), step.objects); got != step.want {
			t.Errorf("the last of %d waits for %s, want %s", step.objects, got, step.want)
		}
	}
	for i, end := range []func(types.NamespacedName){w.Wrote, w.Forget, w.Settled} {
		for n := range len(w.waiting) / (3 - i) {
			end(name(n + i*10*Longest*Rate/3))
		}
	}
	if len(w.waiting) > 1 {
		t.Errorf("%d objects wait of which none has anything to write", len(w.waiting))
	}
	one := name(-1)
	w.Wrote(one)
	if got := w.Left(one); got != Interval {
		t.Errorf("when the others have been written, a change waits for %s, want %s", got, Interval)
	}
	at = at.Add(Interval)
	if got := w.Left(one); got != 0 || len(w.waiting) > 1 {
		t.Errorf("a change whose time has come waits for %s among %d", got, len(w.waiting))
	}
}

func TestTurned(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waits", Message: "1 of 8", ObservedGeneration: 1}
	with := func(change func(*metav1.Condition)) []metav1.Condition {
		c := ready
		change(&c)
		return []metav1.Condition{c}
	}
	tests := map[string]struct {
		now  []metav1.Condition
		want bool
	}{
		"the same":           {with(func(*metav1.Condition) {}), false},
		"another message":    {with(func(c *metav1.Condition) { c.Message = "2 of 8" }), false},
		"another status":     {with(func(c *metav1.Condition) { c.Status = metav1.ConditionTrue }), true},
		"another reason":     {with(func(c *metav1.Condition) { c.Reason = "Lost" }), true},
		"another generation": {with(func(c *metav1.Condition) { c.ObservedGeneration = 2 }), true},
		"another type":       {with(func(c *metav1.Condition) { c.Type = "Placed" }), true},
		"gone":               {nil, true},
		"one more":           {append(with(func(*metav1.Condition) {}), metav1.Condition{Type: "Placed"}), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Turned([]metav1.Condition{ready}, tc.now); got != tc.want {
				t.Errorf("turned: %t, want %t", got, tc.want)
			}
			if got, want := Turned([]metav1.Condition{ready}, tc.now, "Ready"), tc.want && name != "another reason"; got != want {
				t.Errorf("turned, as a summary: %t, want %t", got, want)
			}
		})
	}
}
