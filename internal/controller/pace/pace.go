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
// The first status of an object that has none may wait as long, from when it was first looked at, see [Writes.Begun]: of what an object
// goes through in its first second only the end is written.
package pace

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Interval is the least time between two writes of one status of which the second could wait.
const Interval = time.Second

// Writes knows when the status of each object was last written. The zero value is ready.
type Writes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
	// begun is when an object without a status was first looked at.
	begun map[types.NamespacedName]time.Time
	// Now replaces the clock, for tests.
	Now func() time.Time
}

// Left is the time until a change of this object's status that can wait is to be written; 0 is now.
func (w *Writes) Left(name types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[name]
	if !ok {
		return 0
	}
	if since := w.clock().Sub(last); since >= 0 && since < Interval {
		return Interval - since
	}
	delete(w.last, name)
	return 0
}

// Begun is the time until the first status of this object is to be written, if it can wait; 0 is now. The first call begins it.
func (w *Writes) Begun(name types.NamespacedName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, ok := w.begun[name]
	if !ok {
		if w.begun == nil {
			w.begun = map[types.NamespacedName]time.Time{}
		}
		w.begun[name] = w.clock()
		return Interval
	}
	if since := w.clock().Sub(first); since >= 0 && since < Interval {
		return Interval - since
	}
	return 0
}

// Wrote notes that the status of this object has been written now.
func (w *Writes) Wrote(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.NamespacedName]time.Time{}
	}
	w.last[name] = w.clock()
	delete(w.begun, name)
}

// Forget an object that is gone.
func (w *Writes) Forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, name)
	delete(w.begun, name)
}

func (w *Writes) clock() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
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
