// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity asks autoscalers for nodes when gangs wait for capacity: it makes and deletes placeholders and ProvisioningRequests
// (package internal/capacity decides which).
//
// It runs only where --capacity-requests names a kind, and needs its rights (config/capacity) only there. One reconcile looks at
// everything, since the bound is one for the whole cluster.
package capacity

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Reasons of events on deployments.
const (
	// EventRequested means that an autoscaler is asked for nodes for a gang.
	EventRequested = "CapacityRequested"
	// EventNotRequested means that a gang waits for capacity that is not asked for, and why.
	EventNotRequested = "CapacityNotRequested"
	// EventGivenUp means that what was asked for a gang is deleted without the gang being placed. It is asked for again after a pause.
	EventGivenUp = "CapacityRequestEnded"
	// EventRefused means that the API server refuses what is to be asked with. The operator tries again.
	EventRefused = "CapacityRequestRefused"
)

// lookEvery is how often everything is looked at, at most.
const lookEvery = time.Second

// Hosts knows which hosts have room for a pod: the scheduler loop.
type Hosts interface {
	HostsFor(shape *topology.Shape, most int) []string
}

// Results are the scheduling results.
type Results interface {
	Get(name types.NamespacedName, uid types.UID) (gang.Result, bool)
	// Ask takes over which capacity is asked for, by graph in words.
	Ask(asked map[types.NamespacedName]string)
}

// Options are what an admin allows.
type Options struct {
	// Kinds that are asked with; none: the controller does not run.
	Kinds []string
	// Preset is the kind of deployments without the annotation.
	Preset string
	capacity.Limits
	// NewNodeLabels are the labels of which the autoscaler knows the values that new nodes can have.
	NewNodeLabels []string
	// Image is what placeholders run.
	Image string
}

// Reconciler writes placeholders and ProvisioningRequests.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client    client.Client
	Hosts     Hosts
	Results   Results
	Providers addon.Registry
	// Promises are Workloads of Kueue that wait for their place: their pods are asked for as they will be admitted; nil for none.
	Promises *quota.Promises
	Recorder events.EventRecorder
	// Namespace is the operator's own, where placeholders are.
	Namespace string
	Options   Options
	Clock     clock.Clock

	planner capacity.Planner
	// last is when everything was looked at, and told what was last said of gangs that are not asked for.
	last time.Time
	told map[gangKey]string
}

type gangKey struct {
	graph types.UID
	name  string
}

// SetupWithManager registers the controller. changed is told when scheduling results have changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, providers *provider.Registry, changed <-chan event.GenericEvent,
	retries blocked.Retries) error {
	r.Providers, r.planner.Limits = providers, r.Options.Limits
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return capacity.IsPlaceholder(o.(*corev1.Pod), r.Namespace) })
	return ctrl.NewControllerManagedBy(mgr).
		Named("capacity").
		Watches(&nvidiav1beta1.DynamoGraphDeployment{}, all).
		Watches(&corev1.Pod{}, all, builder.WithPredicates(ours)).
		WatchesRawSource(source.Channel(changed, all)).
		WatchesRawSource(source.Channel(providers.Changes(), all)).
		WithOptions(blocked.Options(1, retries)).
		Complete(r)
}

// Reconcile compares what is asked for with what waits.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.Clock.Now()
	if wait := r.last.Add(lookEvery).Sub(now); wait > 0 && wait <= lookEvery {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	next, err := r.look(ctx, now)
	if err != nil {
		r.last = time.Time{} // the next try is due when the queue says
		return ctrl.Result{}, err
	}
	r.last = now
	if next.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(next.Sub(now), lookEvery)}, nil
}

// look observes, decides, reports and writes. It returns when to look again without an event; the zero time: not before one.
func (r *Reconciler) look(ctx context.Context, now time.Time) (next time.Time, err error) {
	o, deployments, err := r.observe(ctx)
	if err != nil {
		return time.Time{}, err
	}
	steps := r.planner.Plan(o, now)
	r.report(steps, deployments)
	return steps.Next, errors.Join(r.remove(ctx, steps), r.create(ctx, steps, deployments))
}
