// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler is the loop that places gangs: it watches the whole cluster, plans waiting gangs and releases them with the graph's
// provider.
//
// One goroutine makes all plans. It uses an in-memory cluster cache, which reserves capacity for each released pod until the pod is bound.
// Writers in other goroutines send one patch per pod. Decisions that the API does not show yet are only in the ledger. After a restart, the
// ledger is rebuilt from pinned, unbound pods and from recorded places:
//
//	events ──> ledger ──┐ (graphs to wake)
//	events ──> queue of graphs ──> observe ──> ledger decides: placement.PlanGraph ──> release (writers) ──> pods
//	                                                  └──> results ──> DGD status
//
// The ledger has the lock and all state that the lock guards. It uses neither the queue nor the API; the [Scheduler] acts on its results.
//
// A graph is evaluated when one of its objects changes. While one of its gangs waits, it is also evaluated when capacity may have been
// freed.
//
// Capacity is set aside in three ways:
//
//   - A reservation is the capacity of one released pod, from its release until it is bound (releasedPods, topology.Cluster.Assume).
//   - A hold is the capacity of a lost pod, for its successor (holds).
//   - A domain reservation is a number of whole hosts in one domain, for a waiting gang that has no capacity there yet (domainReserver).
package scheduler

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// Scheduler is the loop. Start runs it, on the leader only.
type Scheduler struct {
	announcer
	objects   objects
	cache     cache.Cache
	providers *provider.Registry
	options   Options
	// ledger has the in-memory state of the cluster, and makes the decisions from this state.
	ledger *ledger
	queue  *queue
	// line has the graphs that are due and not evaluated yet; only the loop reads and writes it.
	line    turns.Line
	writers *writers
	// placements are the GraphPlacements.
	placements *graphPlacements
	gathered   gathered
	// treesDropped is when the cluster cache last dropped unused trees; only the loop reads and writes it.
	treesDropped time.Time
}

// New returns a loop that reads from c and reports to results.
func New(c cache.Cache, providers *provider.Registry, recorder events.EventRecorder, results *Results, o Options) *Scheduler {
	o.RequeueAfter = cmp.Or(o.RequeueAfter, DefaultRequeueAfter)
	o.HoldFor = cmp.Or(o.HoldFor, DefaultHoldFor)
	o.ReserveDomainFor = cmp.Or(o.ReserveDomainFor, DefaultReserveDomainFor)
	o.ReserveShare = cmp.Or(o.ReserveShare, DefaultReserveShare)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Scheduler{
		objects: objects{reader: c}, cache: c, providers: providers, options: o, queue: newQueue(), announcer: newAnnouncer(results, recorder),
	}
	s.ledger = newLedger(o, s.queue.wake, func(gone *corev1.Pod) (types.NamespacedName, bool) {
		return s.objects.followed(s.placements, gone)
	})
	s.placements = newGraphPlacements(c, o.Records, o.Live)
	s.writers = newWriters(s.ledger, s.queue, s.placements, o, func() { s.providers.Suspect() })
	// A change of a provider's state wakes the waiting graphs. A change of a provider's object wakes the graph that the object concerns.
	providers.OnState(func(string) { s.queue.wakeWaiting() })
	providers.OnChange(s.queue.add)
	if o.Promises != nil {
		o.Promises.OnChange(s.queue.add)
	}
	if o.Asks != nil {
		o.Asks.look = s.queue.add
	}
	return s
}

// running is the loop of this process while it leads; nil otherwise. If a test starts several loops, running is the last loop.
var running atomic.Pointer[Scheduler]

// Recorded returns the recorded replicas of a group. The caller deletes the pods of attempts that no longer count.
func (s *Scheduler) Recorded(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (assignment.Replicas, error) {
	return s.placements.replicasOf(ctx, sg)
}

// RecordOf returns the record of a deployment; nil if placements are not recorded.
func (s *Scheduler) RecordOf(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (*assignment.Record, error) {
	now, err := s.placements.of(ctx, dgd)
	return now.record, err
}

// HostsFor lists hosts that have capacity for a pod of a shape now, by the value of their label kubernetes.io/hostname. It returns at most
// the given number of hosts, the first ones by node name.
func (s *Scheduler) HostsFor(shape *topology.Shape, most int) []string {
	return s.ledger.hostsFor(shape, most)
}
