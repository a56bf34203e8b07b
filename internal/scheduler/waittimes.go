// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// waits are the gangs that wait to be placed, by graph, as of the last evaluation of the graph.
type waits map[types.NamespacedName]map[gang.Key]wait

// wait is one gang that waits.
type wait struct {
	// since is the start of the wait: the first evaluation of the gang or, if earlier, the creation of its first pod. Only a wait for
	// admission resets it.
	since time.Time
	// reason is the last reason for which the gang waited.
	reason string
	// admitted is when the gang stopped waiting for admission; zero if it never waited for admission, or still waits for admission. The
	// time before admitted does not count as a wait for capacity.
	admitted time.Time
}

// next returns the wait, updated by an evaluation in which the gang waits for the given reason. created is when the gang's first pod was
// created.
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

// from returns the time since which a gang that is placed now has waited for capacity. created is the creation time of one of the gang's
// pods.
func (w wait) from(created, now time.Time) time.Time {
	switch {
	case w.reason == gang.CodeWaitingForAdmission:
		return now
	case w.admitted.IsZero() && !created.IsZero():
		return earlier(w.since, created)
	}
	return w.since
}
