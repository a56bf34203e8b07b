// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler is the loop that places gangs: it watches the whole cluster, plans waiting gangs and has the graph's provider release them.
//
// One goroutine plans, on an in-memory cluster cache in which every released pod holds its capacity until it is bound;
// writers outside it send one patch a pod. What was decided but is not yet visible in the API lives here only, and is rebuilt from
// pinned, unbound pods after a restart:
//
//	events ──> cluster cache ──┐
//	events ──> queue of graphs ──> observe ──> placement.PlanGraph ──> release (writers) ──> pods
//	                                                  └──> results ──> DGD status
//
// A graph is looked at when one of its objects changes, and, while something of it waits, when capacity may have been freed.
//
// Capacity is set aside in three ways:
//
//   - A reservation is the capacity of one released pod, from its release until it is bound (inFlight, topology.Cluster.Assume).
//   - A hold is the capacity of a lost pod, for its successor (holds).
//   - A domain reservation is whole hosts of one domain, for a gang that waits and has nothing there yet (domainReserver).
package scheduler

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// Defaults of Options.
const (
	// DefaultRequeueAfter is how long a released pod may be unschedulable before its gang is requeued (docs/providers.md#when-a-gang-is-not-bound).
	DefaultRequeueAfter = 30 * time.Second
	// DefaultReserveDomainFor is how long hosts of a domain are reserved for a gang, where that is asked for, and DefaultReserveShare the share
	// of a topology's nodes that may be reserved.
	DefaultReserveDomainFor = 30 * time.Minute
	DefaultReserveShare     = 0.1
	// DefaultHoldFor is how long the capacity of a lost replica is held for its successor (docs/placement.md#when-something-breaks).
	DefaultHoldFor = time.Minute
	// writers is how many patches are under way at once.
	writers = 32
)

// Options of the loop; the zero value is the default.
type Options struct {
	RequeueAfter, HoldFor time.Duration
	// ReserveDomainAfter is how long a gang that small ones would starve waits before hosts are reserved for it; 0 and less: none are.
	// ReserveDomainFor is how long they are reserved.
	ReserveDomainAfter, ReserveDomainFor time.Duration
	// ReserveShare is the largest share of a topology's nodes that is reserved, 0 < share <= 1. A gang that needs more gets no reservation.
	ReserveShare float64
	// MetricResources are what the metrics by level count, such as nvidia.com/gpu; MetricGraphs is how many graphs have metrics of their own.
	MetricResources []string
	MetricGraphs    int
	// IgnoredResources are what the kube-scheduler ignores: names of resources, and groups of them.
	IgnoredResources []string
	// Mapper knows what the API server serves; nil: nothing that it may not serve is looked for.
	Mapper meta.RESTMapper
	Clock  clock.Clock
}

// Scheduler is the loop. Start runs it; it needs to be the leader.
type Scheduler struct {
	reader    client.Reader
	cache     cache.Cache
	providers *provider.Registry
	recorder  events.EventRecorder
	results   *Results
	options   Options
	queue     *queue
	// line are the graphs that are due and not looked at yet; the loop alone reads and writes it.
	line   turns.Line
	writes chan struct{}

	// mu guards the cluster cache and all that goes with it.
	mu      sync.Mutex
	cluster *topology.Cluster
	// inFlight follows released pods until they are bound; unbound are those that something stands against.
	inFlight inFlight
	unbound  unbound
	// holds are the capacity of lost pods, held for their successors.
	holds holds
	// idle are released pods that no scheduler tries to bind.
	idle idlePods
	// avoided are hosts that others have not left in time.
	avoided avoided
	// reserver reserves hosts of a domain for a gang that has been waiting for long.
	reserver domainReserver
	// admission is what pods that are still to be made go through.
	admission admission
	// backoffs are the pauses of graphs whose gangs were requeued.
	backoffs backoffs
	// failures are the graphs of which a release failed.
	failures failures
	// waits are the gangs that wait, for the metrics.
	waits    waits
	gathered gathered
	// treesDropped is when the cluster cache last dropped the trees that nothing uses; the loop alone reads and writes it.
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
		reader: c, cache: c, providers: providers, recorder: recorder, results: results, options: o,
		queue: newQueue(), writes: make(chan struct{}, writers),
		cluster: gang.NewCluster(), inFlight: newInFlight(), unbound: newUnbound(), holds: newHolds(o.HoldFor), reserver: newDomainReserver(o),
		idle: newIdlePods(o.RequeueAfter), avoided: avoided{}, backoffs: backoffs{}, failures: failures{}, waits: waits{},
	}
	s.cluster.OnFreed = s.queue.wake
	s.cluster.Ignore(topology.IgnoredResources(o.IgnoredResources))
	// A graph is looked at again when its provider may work now, or when something of the provider's own that concerns the graph has changed.
	providers.OnState(func(string) { s.queue.wakeWaiting() })
	providers.OnChange(s.queue.add)
	return s
}

// NeedLeaderElection says yes: only one loop may release pods.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start runs the loop until ctx ends. It plans nothing before it has seen every node and pod.
func (s *Scheduler) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("scheduler"))
	if err := s.watch(ctx); err != nil {
		return err
	}
	if err := s.recoverAll(ctx); err != nil {
		return err
	}
	running.Store(s)
	defer running.CompareAndSwap(s, nil)
	for {
		s.wakeFreed()
		due, next := s.queue.take(s.options.Clock.Now())
		next = min(next, s.expireHolds())
		s.round(ctx, due)
		if ctx.Err() == nil && (len(due) > 0 || s.line.Len() > 0) {
			continue
		}
		timer := s.options.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			s.finishWrites()
			return nil
		case <-s.queue.signal:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// finishWrites waits for the writes under way, so that no write outlives the loop.
func (s *Scheduler) finishWrites() {
	for range writers {
		s.writes <- struct{}{}
	}
}

func (s *Scheduler) forgetGraph(name types.NamespacedName) {
	s.queue.drop(name)
	s.line.Remove(name.Namespace, name.Name)
	s.results.drop(name)
	s.providers.Forget(name)
	s.mu.Lock()
	s.backoffs.end(name)
	delete(s.waits, name)
	delete(s.failures, name)
	delete(s.avoided, name)
	s.leaveLine(name, false)
	s.holds.drop(s.cluster, name)
	s.mu.Unlock()
}

// observe reads everything about one graph from the cache. The objects are the cache's own, to be looked at only: every event of a pod has its
// graph read, and copying what is read would be most of the loop's work.
func (s *Scheduler) observe(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (gang.Observation, error) {
	o := gang.Observation{DGD: dgd}
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := s.reader.List(ctx, groups, client.InNamespace(dgd.Namespace), client.MatchingFields{IndexGroupsByGraph: string(dgd.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return o, err
	}
	for i := range groups.Items {
		if groups.Items[i].DeletionTimestamp == nil {
			o.Groups = append(o.Groups, &groups.Items[i])
		}
	}
	pods := &corev1.PodList{}
	if err := s.reader.List(ctx, pods, client.InNamespace(dgd.Namespace), client.MatchingFields{IndexPodsByGraph: graph.LabelValue(dgd.Name)}, client.UnsafeDisableDeepCopy); err != nil {
		return o, err
	}
	for i := range pods.Items {
		o.Pods = append(o.Pods, &pods.Items[i])
	}
	var err error
	if o.Profile, err = s.profile(ctx, o.Groups); err != nil {
		return o, err
	}
	o.Admission, err = s.admission.of(ctx, s.reader, dgd.Namespace, o.Groups)
	return o, err
}

func (s *Scheduler) profile(ctx context.Context, groups []*trellisv1alpha1.ScalingGroup) (*grovev1alpha1.ClusterTopology, error) {
	for _, sg := range groups {
		if sg.Spec.Topology == nil || sg.Spec.Topology.Profile == "" {
			continue
		}
		profile := &grovev1alpha1.ClusterTopology{}
		err := s.reader.Get(ctx, types.NamespacedName{Name: sg.Spec.Topology.Profile}, profile)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return profile, err
	}
	return nil, nil
}

func logger(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) logr.Logger {
	return log.FromContext(ctx).WithValues("graph", client.ObjectKeyFromObject(dgd))
}
