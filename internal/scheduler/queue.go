// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue holds the graphs to look at, each once, some not before a certain time. It never loses one: a graph added while it is
// being planned is taken again in the next round.
type queue struct {
	mu    sync.Mutex
	due   map[types.NamespacedName]bool
	later map[types.NamespacedName]time.Time
	// waiting graphs have something to place that did not fit; freed capacity wakes them.
	// The number is the priority below which it preempts.
	waiting map[types.NamespacedName]int32
	signal  chan struct{}
}

func newQueue() *queue {
	return &queue{
		due: map[types.NamespacedName]bool{}, later: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]int32{},
		signal: make(chan struct{}, 1),
	}
}

// add asks for a look at the graph now.
func (q *queue) add(name types.NamespacedName) {
	q.mu.Lock()
	q.due[name] = true
	q.mu.Unlock()
	q.wake()
}

// addAt asks for a look at the graph at a time; the earliest wins.
func (q *queue) addAt(name types.NamespacedName, at time.Time) {
	q.mu.Lock()
	if old, ok := q.later[name]; !ok || at.Before(old) {
		q.later[name] = at
	}
	q.mu.Unlock()
	q.wake()
}

// wakeWaiting asks for a look at every graph that waits for room.
func (q *queue) wakeWaiting() {
	q.mu.Lock()
	for name := range q.waiting {
		q.due[name] = true
	}
	some := len(q.waiting) > 0
	q.mu.Unlock()
	if some {
		q.wake()
	}
}

// wakeAbove asks for a look, at a time, at every waiting graph that would preempt a pod of the priority.
func (q *queue) wakeAbove(priority int32, at time.Time) {
	q.mu.Lock()
	some := false
	for name, preemptsBelow := range q.waiting {
		if old, ok := q.later[name]; preemptsBelow > priority && (!ok || at.Before(old)) {
			q.later[name] = at
			some = true
		}
	}
	q.mu.Unlock()
	if some {
		q.wake()
	}
}

// setWaiting says whether freed capacity concerns the graph, and below which priority it preempts.
func (q *queue) setWaiting(name types.NamespacedName, waits bool, preemptsBelow int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waits {
		q.waiting[name] = preemptsBelow
	} else {
		delete(q.waiting, name)
	}
	graphsWaiting.Set(float64(len(q.waiting)))
}

func (q *queue) drop(name types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, name)
	delete(q.later, name)
	graphsWaiting.Set(float64(len(q.waiting)))
}

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// take empties the queue of what is due at now, and says how long until the next one is.
func (q *queue) take(now time.Time) (due []types.NamespacedName, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next = time.Hour
	for name, at := range q.later {
		if wait := at.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		q.due[name] = true
		delete(q.later, name)
	}
	for name := range q.due {
		due = append(due, name)
	}
	clear(q.due)
	return due, next
}
