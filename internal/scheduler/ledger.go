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

// ledger is the memory of the scheduler, and what decides by it. What is decided is in the ledger before the API shows it.
//
// Events change the ledger and return the graphs that they concern. It knows neither the queue nor the API server nor the writers: what
// has to be read it is given, as functions. Its methods in the files of changes (nodechanges.go, podchanges.go, releasechanges.go,
// evictionchanges.go, freeplacechanges.go), in ledgerexpiry.go and in ledgerqueries.go take the lock, as those of [ruleStores] do; the
// methods of its parts, and of an [evaluation], are called with the lock held.
type ledger struct {
	// mu guards all that follows.
	mu sync.Mutex
	state
	// reserver reserves hosts of a domain for a gang that has been waiting for long.
	reserver domainReserver
	// freer moves running replicas so that a gang which waits gets a place.
	freer placeFreer
	// backoffs are the pauses of graphs whose gangs were requeued.
	backoffs backoffs
	// failures are the graphs of which a release failed.
	failures failures
	// deciding are the graphs of which pods are being released that decide domains.
	deciding map[types.NamespacedName]*deciding
	// refreshing are the graphs whose groups are given the levels of their ClusterTopology as it is now.
	refreshing map[types.NamespacedName]*trellisv1alpha1.ResolvedTopology
	// waits are the gangs that wait, for the metrics.
	waits waits
	// unrecorded are the graphs whose record is to be changed, and since when.
	unrecorded map[types.NamespacedName]time.Time
	// kept are gangs by name whose recorded eviction has ended.
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

// evaluation is one evaluation of a graph, with the decision that it comes to. It is made with the lock held.
type evaluation struct {
	*ledger
	// asks are those of the graph.
	asks []asked
	d    *decision
}

// evaluate begins an evaluation of a graph. It reads the asks, so the graph is read after it.
func (l *ledger) evaluate(graph types.NamespacedName) *evaluation {
	return &evaluation{ledger: l, asks: l.options.Asks.ofGraph(graph), d: &decision{graph: graph}}
}
