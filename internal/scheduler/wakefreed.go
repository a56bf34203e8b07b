// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// refreshAfter is how long after a change of a node the graphs that cannot use it are looked at nevertheless, so that what they say about
// the closest domain is up to date.
const refreshAfter = 10 * time.Second

// wakeFreed makes those waiting graphs due that may use the capacity that has become free since the last time.
func (s *Scheduler) wakeFreed() {
	later := s.options.Clock.Now().Add(refreshAfter)
	if !s.ledger.eachFreed(func(node string, mayUse func(types.NamespacedName, waiting) bool) {
		s.queue.wakeFor(node, later, mayUse)
	}) {
		s.queue.wakeWaiting()
	}
}

// stillMayUse reports whether a graph that was woken is to be planned now: those before it may have used what woke it.
func (s *Scheduler) stillMayUse(name types.NamespacedName) bool {
	nodes, always := s.queue.cause(name)
	if always {
		return true
	}
	if w, waits := s.queue.waitingFor(name); !waits || s.ledger.mayUseAny(name, w, nodes) {
		return true
	}
	s.queue.addAt(name, s.options.Clock.Now().Add(refreshAfter))
	return false
}
