// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity requests nodes from autoscalers when gangs wait for capacity: it creates and deletes placeholders and
// ProvisioningRequests (package internal/capacity decides which).
//
// It runs only if --capacity-requests names a kind, and needs its permissions (config/capacity) only then. One reconcile covers all
// deployments, because the limit applies to the whole cluster.
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
	// EventRequested means that nodes for a gang are requested from an autoscaler.
	EventRequested = "CapacityRequested"
	// EventNotRequested means that a gang waits for capacity that is not requested. The message has the reason.
	EventNotRequested = "CapacityNotRequested"
	// EventGivenUp means that a capacity request is deleted although its gang was not placed. The request is repeated after a pause.
	EventGivenUp = "CapacityRequestEnded"
	// EventRefused means that the API server refuses an object of a capacity request. The operator tries again.
	EventRefused = "CapacityRequestRefused"
)

// lookEvery is the minimum interval between reconciles.
const lookEvery = time.Second

// Hosts returns the hosts that have room for a pod. The scheduler loop implements it.
type Hosts interface {
	HostsFor(shape *topology.Shape, most int) []string
}

// Results has the scheduling results by deployment.
type Results interface {
	Get(name types.NamespacedName, uid types.UID) (gang.Result, bool)
	// Ask records the requested capacity of each graph, as text.
	Ask(asked map[types.NamespacedName]string)
}

// Options are the settings of the administrator.
type Options struct {
	// Kinds are the allowed kinds of capacity requests; if empty, the controller does not run.
	Kinds []string
	// Preset is the kind of capacity request for deployments without the annotation.
	Preset string
	capacity.Limits
	// NewNodeLabels are the node labels whose values the autoscaler knows before it adds a node.
	NewNodeLabels []string
	// Image is the image of placeholders.
	Image string
}

// Reconciler writes placeholders and ProvisioningRequests.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client    client.Client
	Hosts     Hosts
	Results   Results
	Providers addon.Registry
	// Promises has the Kueue Workloads that wait for Trellis' AdmissionCheck, before Kueue admits them; nil for none. Capacity is requested
	// for their pods with the node selectors and tolerations that Kueue will add at the admission.
	Promises *quota.Promises
	Recorder events.EventRecorder
	// Namespace is the operator's own namespace, in which placeholders are created.
	Namespace string
	Options   Options
	Clock     clock.Clock

	planner capacity.Planner
	// last is the time of the last evaluation. told has, by gang, the last reported reason why no capacity is requested.
	last time.Time
	told map[gangKey]string
}

type gangKey struct {
	graph types.UID
	name  string
}

// SetupWithManager registers the controller. changed delivers an event when scheduling results have changed.
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

// Reconcile compares the capacity requests with the waiting gangs.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := r.Clock.Now()
	if wait := r.last.Add(lookEvery).Sub(now); wait > 0 && wait <= lookEvery {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	next, err := r.look(ctx, now)
	if err != nil {
		r.last = time.Time{} // the queue's backoff decides when to try again
		return ctrl.Result{}, err
	}
	r.last = now
	if next.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(next.Sub(now), lookEvery)}, nil
}

// look reads the waiting gangs and the capacity requests, plans the changes of the requests, reports the changes, and writes them. next is
// the time of the next evaluation without an event; zero for never.
func (r *Reconciler) look(ctx context.Context, now time.Time) (next time.Time, err error) {
	o, deployments, err := r.observe(ctx)
	if err != nil {
		return time.Time{}, err
	}
	steps := r.planner.Plan(o, now)
	r.report(steps, deployments)
	return steps.Next, errors.Join(r.remove(ctx, steps), r.create(ctx, steps, deployments))
}
