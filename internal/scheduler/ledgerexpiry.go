// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// graphGone forgets a graph that is gone.
func (l *ledger) graphGone(name types.NamespacedName) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backoffs.end(name)
	delete(l.waits, name)
	delete(l.failures, name)
	delete(l.avoided, name)
	l.refused.forget(name)
	delete(l.refreshing, name)
	delete(l.unrecorded, name)
	delete(l.spent, name)
	delete(l.theirs, name)
	maps.DeleteFunc(l.kept, func(_ string, kept keptGang) bool { return kept.graph == name })
	l.freer.forget(name, false)
	l.options.Asks.forgetGraph(name)
	for _, p := range l.planned {
		if p.graph == name {
			l.notCreated(p.pod)
		}
	}
	l.holds.drop(l.cluster, name)
	return wake{waiting: l.reserver.leave(name, false, l.clock.Now())}
}

// expire ends the holds and domain reservations whose time is over, and returns the time until the next hold ends.
func (l *ledger) expire() (next time.Duration, w wake) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	next = l.holds.expire(l.cluster, now)
	return next, wake{now: l.refused.takeEnded(), waiting: l.reserver.expire(now)}
}
