// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// refreshAfter is the delay after which graphs that cannot use a changed node are evaluated nevertheless, so that their messages about the
// closest domain are up to date.
const refreshAfter = 10 * time.Second

// wakeFreed wakes the waiting graphs that may use the capacity freed since the last call.
func (s *Scheduler) wakeFreed() {
	later := s.options.Clock.Now().Add(refreshAfter)
	if !s.ledger.eachFreed(func(node string, mayUse func(types.NamespacedName, waiting) bool) {
		s.queue.wakeFor(node, later, mayUse)
	}) {
		s.queue.wakeWaiting()
	}
}

// stillMayUse reports whether to plan a graph that was woken by freed capacity. Graphs before it in line may have used that capacity.
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
