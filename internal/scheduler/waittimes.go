// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// waits are the gangs that wait to be placed, by graph, from one look at the graph to the next.
type waits map[types.NamespacedName]map[gang.Key]wait

// wait is one gang that waits.
type wait struct {
	// since is when the first of its pods was created, whatever pods it had then.
	since time.Time
	// reason is the last one it was refused for.
	reason string
	// admitted is when it stopped waiting for admission; zero when it never waited for that, or still does. The time before is no wait for
	// capacity.
	admitted time.Time
}

// next is the wait after a look at the gang, whose first pod was created then.
func (w wait) next(reason string, created, now time.Time) wait {
	switch {
	case reason == gang.CodeWaitingForAdmission:
		return wait{since: now, reason: reason}
	case w.reason == gang.CodeWaitingForAdmission:
		w.since, w.admitted = now, now
	case w.admitted.IsZero() && !created.IsZero():
		w.since = earlier(w.since, created)
	}
	w.reason = reason
	return w
}

// from is since when a gang has waited for capacity that is placed now, and of which a pod was created then.
func (w wait) from(created, now time.Time) time.Time {
	switch {
	case w.reason == gang.CodeWaitingForAdmission:
		return now
	case w.admitted.IsZero() && !created.IsZero():
		return earlier(w.since, created)
	}
	return w.since
}
