// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
)

// refreshAfter is how long after a change of a node the graphs that cannot use it are looked at nevertheless, so that what they say about the
// closest domain is of today.
const refreshAfter = 10 * time.Second

// maxFreed is how many nodes are compared with what the waiting graphs ask for. When more have changed, all of these are planned again.
const maxFreed = 32

// waiting is what a graph waits for.
type waiting struct {
	// preemptsBelow is the priority below which bound pods are capacity for the graph.
	preemptsBelow int32
	// unmet is what its refused gangs ask for; nil when a change of any node may matter.
	unmet *placement.Unmet
}

// wakeFreed makes those waiting graphs due that may use the capacity that has become free since the last time, by the cluster cache's own word.
func (s *Scheduler) wakeFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed := s.cluster.Freed()
	if len(freed) > maxFreed {
		s.queue.wakeWaiting()
		return
	}
	later, holders := s.options.Clock.Now().Add(refreshAfter), s.holds.graphs()
	for _, node := range freed {
		s.queue.wakeFor(node, later, func(name types.NamespacedName, w waiting) bool { return s.mayUse(holders[name], w, node) })
	}
}

// mayUse says whether a waiting graph, which holds capacity or not, may be placed after a change of a node. Called with the lock held.
func (s *Scheduler) mayUse(holds bool, w waiting, node string) bool {
	if holds || w.unmet == nil || s.reserver.current != nil {
		return true // it may have more than what is free for everybody
	}
	if w.preemptsBelow > math.MinInt32 && s.cluster.AnyBelow(w.preemptsBelow) {
		return true
	}
	return w.unmet.MayFit(s.cluster, node)
}

// stillMayUse says whether a graph that was woken is to be planned now: those before it may have used what woke it.
func (s *Scheduler) stillMayUse(name types.NamespacedName) bool {
	nodes, always := s.queue.cause(name)
	if always {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, waits := s.queue.waitingFor(name)
	holds := s.holds.has(name)
	if !waits || slices.ContainsFunc(nodes, func(node string) bool { return s.mayUse(holds, w, node) }) {
		return true
	}
	s.queue.addAt(name, s.options.Clock.Now().Add(refreshAfter))
	return false
}
