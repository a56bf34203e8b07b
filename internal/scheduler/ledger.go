// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// ledger is all that the scheduler keeps in memory of the cluster, and what decides by it. What is decided is in the ledger before the API
// shows it.
//
// Events change the ledger and return the graphs that they concern. It knows neither the queue nor the API server nor the writers: what
// has to be read it is given, as functions. Its methods in the files of changes (nodechanges.go, podchanges.go, rulestorechanges.go,
// releasechanges.go, evictionchanges.go, freeplacechanges.go), in ledgerexpiry.go and in ledgerqueries.go take the lock; all others are
// called with the lock held.
type ledger struct {
	options Options
	clock   clock.Clock
	// wakeLoop has the loop look at what was freed, and at when holds end. It is called with the lock held.
	wakeLoop func()
	// followed returns the graph that recreates a pod which is gone, as the API's objects show it; false when none does. It is called with
	// the lock held.
	followed func(*corev1.Pod) (graph types.NamespacedName, is bool)

	// mu guards all that follows.
	mu sync.Mutex
	// binders are what the cluster counts beyond what each node has.
	binders binders
	// cluster has the nodes and what is taken of them: bound pods, reservations, holds, reserved hosts. It knows what was freed since it was
	// asked.
	cluster *topology.Cluster
	// pods are the released pods.
	pods releasedPods
	// own are the pods of scaling groups, by name, as they were last seen; past are the IDs of those that were found gone before their
	// deletion was seen. Both are empty where no replica is created in place.
	own  map[types.NamespacedName]*corev1.Pod
	past map[string]bool
	// served are the schedulers that were seen at work.
	served servedSchedulers
	// holds are the capacity of lost pods, held for their successors.
	holds holds
	// avoided are hosts that others have not left in time.
	avoided avoided
	// refusals are the places that a scheduler refused pods in. refusalsEnded are the graphs for which some ended since the loop asked.
	refusals      refusals
	known         knownRefusals
	refusalsEnded map[types.NamespacedName]bool
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
	// planned are the planned pods that are being created, by ID.
	planned map[string]plannedPod
	// spent are the attempts of replicas in gangs that this operator has carried out, or has seen pods of.
	spent map[types.NamespacedName]map[gang.Key]int32
	// theirs are the places of replicas without pods that other operators have recorded, by graph, and since when they are known. The time is
	// of this clock: that of another operator may differ.
	theirs map[types.NamespacedName]map[gang.Key]knownPlace
}

func newLedger(o Options, wakeLoop func(), followed func(*corev1.Pod) (types.NamespacedName, bool)) *ledger {
	b := newBinders()
	l := &ledger{
		options: o, clock: o.Clock, wakeLoop: wakeLoop, followed: followed, binders: b,
		cluster: gang.NewCluster(b.all()...), pods: newReleasedPods(), served: newServedSchedulers(), holds: newHolds(o.HoldFor),
		own: map[types.NamespacedName]*corev1.Pod{}, past: map[string]bool{}, avoided: avoided{},
		backoffs: backoffs{}, failures: failures{}, waits: waits{}, refusals: refusals{}, known: knownRefusals{},
		refusalsEnded: map[types.NamespacedName]bool{},
		deciding:      map[types.NamespacedName]*deciding{}, kept: map[string]keptGang{}, planned: map[string]plannedPod{},
		spent: map[types.NamespacedName]map[gang.Key]int32{}, theirs: map[types.NamespacedName]map[gang.Key]knownPlace{},
		refreshing: map[types.NamespacedName]*trellisv1alpha1.ResolvedTopology{}, unrecorded: map[types.NamespacedName]time.Time{},
	}
	l.reserver, l.freer = newDomainReserver(o, l.cluster), newPlaceFreer(o)
	l.cluster.OnFreed = wakeLoop
	l.cluster.Ignore(topology.IgnoredResources(o.IgnoredResources))
	l.cluster.Leaving(o.Leaving)
	return l
}
