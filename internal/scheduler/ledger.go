// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// ledger has the scheduler's in-memory state, and makes decisions from it. A decision is in the ledger before the API shows it.
type ledger struct {
	// mu guards all other fields.
	mu sync.Mutex
	state
	// reserver reserves hosts of a domain for a gang that has been waiting for a long time.
	reserver domainReserver
	// freer moves running replicas so that a waiting gang gets a place.
	freer placeFreer
	// backoffs are the pauses of graphs whose gangs were requeued.
	backoffs backoffs
	// failures are the graphs with a failed release.
	failures failures
	// deciding counts, by graph, the writes in progress that determine domains.
	deciding map[types.NamespacedName]*deciding
	// refreshing has the graphs whose groups are being updated to the current levels of their ClusterTopology. The value is the constraint
	// with these levels.
	refreshing map[types.NamespacedName]*trellisv1alpha1.ResolvedTopology
	// waits are the waiting gangs, for the metrics.
	waits waits
	// unrecorded maps graphs with unrecorded changes to the time of the first change.
	unrecorded map[types.NamespacedName]time.Time
	// kept are the gangs, by name, whose eviction has ended but is still in the record.
	kept map[string]keptGang
}

func newLedger(o Options, wakeLoop func(), followed func(*corev1.Pod) (types.NamespacedName, bool)) *ledger {
	l := &ledger{
		backoffs: backoffs{}, failures: failures{}, waits: waits{}, deciding: map[types.NamespacedName]*deciding{},
		kept: map[string]keptGang{}, refreshing: map[types.NamespacedName]*trellisv1alpha1.ResolvedTopology{},
		unrecorded: map[types.NamespacedName]time.Time{},
	}
	l.state = newState(o, &l.mu, wakeLoop, followed)
	l.refused = newRefusedPlaces(o, l.cluster, &l.pods, l.backoffs.times, wakeLoop)
	l.reserver = newDomainReserver(o, l.cluster)
	l.freer = newPlaceFreer(o, &l.state, &l.reserver)
	return l
}

// evaluation is one evaluation of a graph, with its decision. It runs with the lock held.
type evaluation struct {
	*ledger
	// asks are the asks of the graph.
	asks []asked
	d    *decision
}

// evaluate begins an evaluation of a graph. It reads the asks of the graph; the caller reads the graph afterwards.
func (l *ledger) evaluate(graph types.NamespacedName) *evaluation {
	return &evaluation{ledger: l, asks: l.options.Asks.ofGraph(graph), d: &decision{graph: graph}}
}
