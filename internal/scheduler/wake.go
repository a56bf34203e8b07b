// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
)

// refreshAfter is how long after a change of a node the graphs that cannot use it are looked at nevertheless, so that what they say about the
// closest domain is of today.
const refreshAfter = 10 * time.Second

// maxFreed is how many nodes are compared with what the waiting graphs ask for. When more have changed, all of these are planned again.
const maxFreed = 32

// wake is whom an event or a decision concerns.
type wake struct {
	// now are graphs to look at now, later those to look at at a time.
	now   []types.NamespacedName
	later []look
	// waiting: all graphs that wait for capacity.
	waiting bool
}

type look struct {
	graph types.NamespacedName
	at    time.Time
}

func (w *wake) at(graph types.NamespacedName, at time.Time) {
	w.later = append(w.later, look{graph, at})
}

// waiting is what a graph waits for.
type waiting struct {
	// preemptsBelow is the priority below which bound pods are capacity for the graph.
	preemptsBelow int32
	// unmet is what its refused gangs ask for; nil when a change of any node may matter.
	unmet *placement.Unmet
}

// mayUse reports whether a waiting graph, which holds capacity or not, may be placed after a change of a node.
func (l *ledger) mayUse(holds bool, w waiting, node string) bool {
	if holds || w.unmet == nil || l.reserver.current != nil {
		return true // it may have more than what is free for everybody
	}
	if w.preemptsBelow > math.MinInt32 && l.cluster.AnyBelow(w.preemptsBelow) {
		return true
	}
	return w.unmet.MayFit(l.cluster, node)
}

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
