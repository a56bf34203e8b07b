// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Back-off of a graph whose gangs were requeued: doubled each time, from the first to the last. It begins anew when nothing was requeued
// for as long as the last after a pause: a graph with a replica that waits forever is never fully bound.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// backoffs are the pauses of graphs after a gang of theirs was requeued.
type backoffs map[types.NamespacedName]backoff

// backoff is a pause of one graph, and how many there were in succession.
type backoff struct {
	until   time.Time
	times   int
	message string
	// since is when the first of several failures was; unset for requeued gangs.
	since time.Time
}

// begin starts a pause, twice as long as the last one.
func (b backoffs) begin(name types.NamespacedName, why string, now time.Time) {
	times := b.times(name, now)
	b[name] = backoff{until: now.Add(doubled(firstBackoff, lastBackoff, times)), times: times + 1, message: why}
}

// doubled is the first pause, twice as long for each one before, and at most the last.
func doubled(first, last time.Duration, times int) time.Duration {
	return min(first<<min(times, 20), last)
}

// of returns the graph's pause while it lasts.
func (b backoffs) of(name types.NamespacedName, now time.Time) (backoff, bool) {
	one, known := b[name]
	return one, known && now.Before(one.until)
}

// times is how often gangs of the graph were requeued in a row.
func (b backoffs) times(name types.NamespacedName, now time.Time) int {
	if last := b[name]; now.Sub(last.until) < lastBackoff {
		return last.times
	}
	return 0
}

// end forgets what was before: all of the graph is bound, or it is gone.
func (b backoffs) end(name types.NamespacedName) { delete(b, name) }
