// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace spaces the status writes of an object. In a burst of changes, the first change is written immediately, and the last state is
// written after [Interval]. The states in between are never written:
//
//	0.0 s  1 of 8 replicas ready   written
//	0.1 s  2 of 8 replicas ready   waits
//	0.4 s  7 of 8 replicas ready   waits
//	1.0 s  7 of 8 replicas ready   written
//
// Changes on which clients act, such as a changed status of a condition, must not wait. The controllers that use the package determine
// which changes can wait, see [Turned].
//
// The first status of an object may also wait, counted from the first evaluation of the object, see [Writes.First]. Only the last state of
// this time is written.
//
// If many objects have a waiting change, each object waits longer, so that all objects together write [Rate] statuses per second. The wait
// is at most [Longest] times as long as with few objects. When many deployments start at once, the creation of their pods takes precedence
// over status writes about their progress.
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
	// Interval is the minimum time between two writes of one status if the second write can wait.
	Interval = time.Second
	// Rate is the number of waiting changes that are written per second for all objects of one [Writes]. The limit of the wait, see
	// [Longest], may cause more writes.
	Rate = 10
	// Longest is the maximum wait when many objects wait, as a multiple of the wait when few objects wait.
	Longest = 5
)

// Writes has the time of the last status write of each object. The zero value is ready to use.
type Writes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
	// begun is the time at which an object without a status was first evaluated.
	begun map[types.NamespacedName]time.Time
	// waiting are the objects with a waiting change.
	waiting map[types.NamespacedName]struct{}
	// Now replaces the clock, for tests.
	Now func() time.Time
}

// Left returns the time until a change of this object's status must be written, if the change can wait; 0: now. The object counts as
// waiting until then, or until [Writes.Settled].
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

// First returns the time until the first status of this object must be written, if the status can wait; 0: now. The status waits for the
// given time after the first call, or longer if many objects wait.
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

// left returns the remaining wait of a change that has waited since the given time. The wait grows with the number of waiting objects. The
// object counts as waiting while the result is positive.
func (w *Writes) left(name types.NamespacedName, since time.Time, wait time.Duration) time.Duration {
	set(&w.waiting, name, struct{}{})
	wait = min(max(wait, wait*time.Duration(len(w.waiting))/Rate), wait*Longest)
	if passed := w.clock().Sub(since); passed >= 0 && passed < wait {
		return wait - passed
	}
	delete(w.waiting, name)
	return 0
}

// Settled records that the status of this object is up to date, so that no change waits.
func (w *Writes) Settled(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, name)
}

// Wrote records that the status of this object was written now.
func (w *Writes) Wrote(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set(&w.last, name, w.clock())
	delete(w.begun, name)
	delete(w.waiting, name)
}

// Forget drops the state of a deleted object.
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

// Turned reports whether a condition is new or gone, or has another status, reason or generation. A changed message alone can wait. A
// changed reason of a condition in summaries can wait as well, because such a condition only summarizes other conditions.
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
