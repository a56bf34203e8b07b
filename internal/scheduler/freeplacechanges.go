// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// movesDue reports whether a decision about moves is due now. If not, it returns the time until a decision is due.
func (l *ledger) movesDue() (is bool, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freer.due(l.clock.Now())
}

// decideMoves decides which replica moves now. movable are the deployments whose replicas may move.
func (l *ledger) decideMoves(movable []gang.Observation) moveStep {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, step := l.clock.Now(), moveStep{again: time.Second}
	open := l.freer.open(now)
	if l.freer.batch == nil && len(open) > 0 {
		l.freer.adoptBatch(open[0], movable, &step, now)
	} else if l.freer.batch == nil {
		l.freer.beginBatch(movable, &step, now)
	} else {
		l.freer.continueBatch(open, movable, &step, now)
	}
	return step
}

// notRequested ends the batch of a graph for which a request could not be written.
func (l *ledger) notRequested(graph types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, request := range l.freer.requests {
		if request.graph == graph && !request.stored {
			delete(l.freer.requests, id)
		}
	}
	if b := l.freer.batch; b != nil && b.graph == graph {
		b.until = l.clock.Now()
	}
}

// freedFor returns the hosts that moves free for a graph; nil for none.
func (l *ledger) freedFor(graph types.NamespacedName) *assignment.Freed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freer.freedFor(graph)
}
