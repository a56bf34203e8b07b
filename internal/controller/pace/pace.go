// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace spaces the status writes of an object. Of changes that follow each other quickly the first is written at once, and what
// they came to [Interval] later; those between are never written:
//
//	0.0 s  1 of 8 replicas ready   written
//	0.1 s  2 of 8 replicas ready   waits
//	0.4 s  7 of 8 replicas ready   waits
//	1.0 s  7 of 8 replicas ready   written
//
// What someone acts on, such as a condition that turns, is not to wait: that is for the controller to say, see [Turned].
//
// The first status of an object that has none may wait as well, from when it was first evaluated, see [Writes.First]: of what an object
// goes through until then only the end is written.
//
// Where many objects have something to write that waits, each waits longer, so that they write [Rate] statuses a second together; none
// waits longer than [Longest]. When many deployments start at once, their pods are created first, and their progress is written less often.
package pace

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Interval is the least time between two writes of one status of which the second could wait.
	Interval = time.Second
	// Rate is how many changes that can wait are written per second, for all objects of one [Writes], unless one has waited for Longest.
	Rate = 10
	// Longest is what a change that can wait waits for at most, in multiples of its time while few wait.
	Longest = 5
)

// Writes knows when the status of each object was last written. The zero value is ready.
type Writes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
	// begun is when an object without a status was first evaluated.
	begun map[types.NamespacedName]time.Time
	// waiting are the objects with something to write that waits.
	waiting map[types.NamespacedName]struct{}
	// Now replaces the clock, for tests.
	Now func() time.Time
}

// Left is the time until a change of this object's status that can wait is to be written; 0 is now. The caller writes it then, or calls
// [Writes.Settled].
func (w *Writes) Left(name types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[name]
	if !ok {
		return 0
	}
	if left := w.left(name, last, Interval); left > 0 {
		return left
	}
	delete(w.last, name)
	return 0
}

// First is the time until the first status of this object is to be written, if it can wait: so long after the first call, or later where
// many wait. 0 is now.
func (w *Writes) First(name types.NamespacedName, after time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, ok := w.begun[name]
	if !ok {
		first = w.clock()
		set(&w.begun, name, first)
	}
	return w.left(name, first, after)
}

// left is the time until what waits since the given time has waited for so long, or for as much longer as others wait. The object is one
// of them while something is left.
func (w *Writes) left(name types.NamespacedName, since time.Time, wait time.Duration) time.Duration {
	set(&w.waiting, name, struct{}{})
	wait = min(max(wait, wait*time.Duration(len(w.waiting))/Rate), wait*Longest)
	if passed := w.clock().Sub(since); passed >= 0 && passed < wait {
		return wait - passed
	}
	delete(w.waiting, name)
	return 0
}

// Settled notes that the status of this object is up to date, so that none waits to be written.
func (w *Writes) Settled(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, name)
}

// Wrote notes that the status of this object has been written now.
func (w *Writes) Wrote(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set(&w.last, name, w.clock())
	delete(w.begun, name)
	delete(w.waiting, name)
}

// Forget an object that is gone.
func (w *Writes) Forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, name)
	delete(w.begun, name)
	delete(w.waiting, name)
}

func (w *Writes) clock() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

func set[V any](in *map[types.NamespacedName]V, name types.NamespacedName, value V) {
	if *in == nil {
		*in = map[types.NamespacedName]V{}
	}
	(*in)[name] = value
}

// Turned reports whether a condition is new or gone, or has another status, reason or generation. A message alone can wait, and so can the
// reason of a condition of one of the types in summaries, which says in other words what further conditions say.
func Turned(before, now []metav1.Condition, summaries ...string) bool {
	if len(before) != len(now) {
		return true
	}
	for _, c := range now {
		b := meta.FindStatusCondition(before, c.Type)
		if b == nil || b.Status != c.Status || b.ObservedGeneration != c.ObservedGeneration ||
			b.Reason != c.Reason && !slices.Contains(summaries, c.Type) {
			return true
		}
	}
	return false
}
