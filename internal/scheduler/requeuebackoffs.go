// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-off of a graph whose gangs were requeued doubles each time, from firstBackoff to lastBackoff. It starts again when the graph is
// fully bound. A graph with a replica that waits forever is never fully bound, so its back-off also starts again if no requeue follows
// within lastBackoff after a pause.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// backoffs are the pauses of graphs after a requeue of their gangs.
type backoffs map[types.NamespacedName]backoff

// backoff is a pause of one graph, and the number of pauses in succession.
type backoff struct {
	until   time.Time
	times   int
	message string
	// since is the time of the first of several failures; unset for requeued gangs.
	since time.Time
}

// begin starts a pause, twice as long as the last pause.
func (b backoffs) begin(name types.NamespacedName, why string, now time.Time) {
	times := b.times(name, now)
	b[name] = backoff{until: now.Add(doubled(firstBackoff, lastBackoff, times)), times: times + 1, message: why}
}

// doubled returns the duration first, doubled once for each earlier pause, but at most the duration last. times is the number of earlier
// pauses.
func doubled(first, last time.Duration, times int) time.Duration {
	return min(first<<min(times, 20), last)
}

// of returns the current pause of a graph; false if there is none.
func (b backoffs) of(name types.NamespacedName, now time.Time) (backoff, bool) {
	one, known := b[name]
	return one, known && now.Before(one.until)
}

// times returns how often gangs of the graph were requeued in a row.
func (b backoffs) times(name types.NamespacedName, now time.Time) int {
	if last := b[name]; now.Sub(last.until) < lastBackoff {
		return last.times
	}
	return 0
}

// end forgets the pauses of a graph that is fully bound, or gone.
func (b backoffs) end(name types.NamespacedName) { delete(b, name) }
