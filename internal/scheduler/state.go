// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// state is the view of the cluster: the nodes, the use of their capacity, and the placed pods.
type state struct {
	options Options
	clock   clock.Clock
	// wakeLoop makes the loop look for freed capacity and for the end of holds. It is called with the lock held.
	wakeLoop func()
	// followed returns the graph that will recreate a pod that is gone, according to the objects in the API cache; false if no graph will.
	// It is called with the lock held.
	followed func(*corev1.Pod) (graph types.NamespacedName, is bool)

	*ruleStores
	// cluster has the nodes and the use of their capacity: bound pods, reservations, holds, reserved hosts. It tracks the capacity that was
	// freed since the last query.
	cluster *topology.Cluster
	// pods are the states of the released pods.
	pods releasedPods
	// own are the pods of scaling groups, by name, in the state last seen. past are the IDs of pods that were removed from the ledger
	// before their deletion event. Both are empty if no replica is created in place.
	own  map[types.NamespacedName]*corev1.Pod
	past map[string]bool
	// served are the schedulers that have bound or refused a pod.
	served servedSchedulers
	// holds are the capacity of lost pods, held for their successors.
	holds holds
	// avoided are the hosts that preemption victims have not left in time.
	avoided avoided
	// refused are the places in which a scheduler refused pods.
	refused *refusedPlaces
	// planned are the planned pods that are being created, by ID.
	planned map[string]plannedPod
	// spent has, by graph and replica, the last attempt whose pods this operator has seen or has begun to release or create. Only replicas
	// in gangs have entries.
	spent map[types.NamespacedName]map[gang.Key]int32
	// theirs are the places that other operators have recorded for replicas without pods, by graph, with the time at which this operator
	// first read each place. The time is by this operator's clock, because another operator's clock may differ.
	theirs map[types.NamespacedName]map[gang.Key]knownPlace
}

func newState(o Options, mu sync.Locker, wakeLoop func(), followed func(*corev1.Pod) (types.NamespacedName, bool)) state {
	b := newBinders()
	cluster := gang.NewCluster(b.all()...)
	cluster.OnFreed = wakeLoop
	cluster.Ignore(topology.IgnoredResources(o.IgnoredResources))
	cluster.Leaving(o.Leaving)
	return state{
		options: o, clock: o.Clock, wakeLoop: wakeLoop, followed: followed, ruleStores: &ruleStores{mu: mu, cluster: cluster, binders: b},
		cluster: cluster, pods: newReleasedPods(), served: newServedSchedulers(), holds: newHolds(o.HoldFor),
		own: map[types.NamespacedName]*corev1.Pod{}, past: map[string]bool{}, avoided: avoided{}, planned: map[string]plannedPod{},
		spent: map[types.NamespacedName]map[gang.Key]int32{}, theirs: map[types.NamespacedName]map[gang.Key]knownPlace{},
	}
}
