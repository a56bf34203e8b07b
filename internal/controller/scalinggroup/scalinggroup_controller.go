// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scalinggroup creates the pods of scaling groups and counts their replicas.
//
// It creates a pod once and never changes its spec: the provider places the pod, and an update replaces it. Names are deterministic, so
// creating a pod twice is harmless. Each deletion has the pod's UID as a precondition, so it never deletes a successor.
package scalinggroup

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// Reconciler creates the pods of scaling groups.
type Reconciler struct {
	// Client reads from the cache and writes. Its reads wait for its own writes. Otherwise a pod that the cache does not show yet would be
	// created again, and a failure would be counted twice.
	Client client.Client
	// Live reads past the cache, for example before objects are deleted because an owner or a node seems gone.
	Live client.Reader
	// Domains writes ComputeDomains. It does not wait until the cache shows its writes, because this would start a watch on a kind that may
	// not be installed.
	Domains client.Writer
	// Providers are the providers, by name.
	Providers *provider.Registry
	// MaxPods limits the pods of one graph: no pod is created for a graph whose groups together request more pods; 0: no limit.
	MaxPods int64
	// HoldFor is how long the capacity of a lost replica is held for its successor (scheduler.Options).
	HoldFor time.Duration
	// Asks has the requests to the scheduler for places of replicas to be created in place; nil: all pods are created gated. Placed
	// delivers the groups whose requests the scheduler has answered, and triggers their reconcile.
	Asks   *scheduler.Asks
	Placed <-chan event.GenericEvent
	// Recorded is [scheduler.Scheduler.Recorded].
	Recorded func(context.Context, *trellisv1alpha1.ScalingGroup) (assignment.Replicas, error)
	// Retries are the delays after failures.
	Retries blocked.Retries
	// Leaving has the rules that determine which nodes are to be removed. MoveTimeout is how long a replica on such a node waits for its
	// successor.
	Leaving     leaving.Rules
	MoveTimeout time.Duration
	// Responds: new pods name the operator as a responder to Evictions, except pods of LeaderWorkerSets, whose CRD drops the field.
	Responds bool

	refusals refusals
	turns    creationturns.Turns
	causes   podCauses
	stored   storedPods
	domains  domains
	kinds    kinds
	written  pace.Writes
	moving   moving
	lacks    quotaLacks
}

// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=events;limitranges,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamoworkermetadatas,verbs=list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.refusals.first = r.Retries.First
	controllers := ctrl.NewControllerManagedBy(mgr)
	if err := r.watchMetadata(ctx, mgr, controllers); err != nil {
		return err
	}
	if r.Placed != nil {
		controllers.WatchesRawSource(source.Channel(r.Placed, &handler.EnqueueRequestForObject{}))
	}
	return controllers.
		Named("scalinggroup").
		For(&trellisv1alpha1.ScalingGroup{}).
		Watches(&trellisv1alpha1.ScalingGroup{}, handler.EnqueueRequestsFromMapFunc(r.siblings),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&trellisv1alpha1.GraphPlacement{}, handler.EnqueueRequestsFromMapFunc(r.groupsOfPlacement),
			builder.WithPredicates(placedAgain())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(groupOf)).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.easedBy), builder.WithPredicates(blocked.QuotaEased())).
		Watches(&corev1.Node{}, r.onNodes()).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.budgets().concerned),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Providers.Changes(), handler.EnqueueRequestsFromMapFunc(r.concernedBy))).
		WatchesRawSource(source.Channel(r.tellTurns(), &handler.EnqueueRequestForObject{})).
		WithOptions(blocked.Options(16, r.Retries)). // workers wait for the API server most of the time
		Complete(r)
}

// Reconcile reads the group's pods, plans the rollout, creates and deletes pods, and reports the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	sg, pods, err := r.find(ctx, req.NamespacedName)
	if err != nil || sg == nil {
		return ctrl.Result{}, err
	}
	if workload := r.Providers.Workload(sg.Spec.Provider); workload != nil {
		r.Asks.Forget(req.NamespacedName)
		again, err := r.countWorkload(ctx, sg, workload)
		return ctrl.Result{RequeueAfter: again}, errors.Join(err, r.budgets().keep(ctx, observed{sg: sg}, 0))
	}
	adopting, refused := r.adopt(ctx, sg, pods.orphans)
	if adopting && refused == nil {
		return ctrl.Result{}, nil
	}
	p := &pass{Reconciler: r, observed: observed{sg: sg, pods: pods}}
	for _, step := range []func(context.Context) error{p.observe, p.decide, p.remember, p.rememberMoves, p.allow, p.place} {
		if err := step(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	if gone, err := p.isGoneBefore(ctx); gone || err != nil {
		return ctrl.Result{}, err
	}
	noDomain := p.prepareDomains(ctx)
	failure := errors.Join(refused, noDomain, p.apply(ctx))
	result, err := p.finish(ctx, failure)
	return result, errors.Join(err, r.budgets().keep(ctx, p.observed, podsThatStay(sg, p.replicas)))
}

// find reads a group and the pods that name it, and deletes the pods of earlier groups of its name. The returned group is nil if the group
// is gone or being deleted, so that the reconcile ends.
func (r *Reconciler) find(ctx context.Context, name types.NamespacedName) (*trellisv1alpha1.ScalingGroup, found, error) {
	sg := &trellisv1alpha1.ScalingGroup{}
	err := r.Client.Get(ctx, name, sg)
	if client.IgnoreNotFound(err) != nil {
		return nil, found{}, err
	}
	gone := apierrors.IsNotFound(err)
	if gone {
		r.refusals.forget(name)
		r.causes.keep(name, nil)
		r.turns.Forget(name)
		r.Asks.Forget(name)
		r.written.Forget(name)
		r.domains.forget(name)
		r.moving.note(name, nil)
		r.lacks.note(name, false, r.refusals.clock())
	}
	if sg.DeletionTimestamp != nil {
		r.turns.Forget(name)
		r.Asks.Forget(name)
		return nil, found{}, nil // the garbage collector deletes the pods
	}
	pods, err := r.podsOf(ctx, name, sg)
	if err == nil {
		err = r.deleteLeftovers(ctx, name, sg.UID, pods.earlier)
	}
	if err != nil || gone {
		return nil, found{}, err
	}
	return sg, pods, nil
}

// earliest returns the shorter of two delays. A delay of 0 means never.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func inPlace(s *trellisv1alpha1.ScalingGroupStatus) bool {
	return s.Progress != nil && s.Progress.InPlace
}
