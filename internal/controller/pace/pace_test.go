// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
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
func TestBegun(t *testing.T) {
	at := time.Unix(1000, 0)
	w := &Writes{Now: func() time.Time { return at }}
	a := types.NamespacedName{Namespace: "ns", Name: "a"}
	left := func(want time.Duration) {
		t.Helper()
		if got := w.Begun(a); got != want {
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
