// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dynamographdeployment turns DynamoGraphDeployments into scaling groups and Services and reports what became of them.
//
// It is the only writer of a deployment's status: the scaling groups' counts reach it through the cache, the scheduler's results in
// memory. An object that would have been refused at admission (it came while no webhook was there) is reported and otherwise left as
// it is: what runs continues running.
package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/controller/scalingadapter"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// IndexByProfile finds deployments by the ClusterTopology they name.
const IndexByProfile = "trellis.profile"

// workers is how many deployments are reconciled at once. The first reconcile of one makes all its children, one request after the other,
// and waits for the answers most of the time; with few workers the statuses of deployments whose pods have become Ready wait behind those
// of new ones.
const workers = 32

// Reconciler reconciles DynamoGraphDeployments.
type Reconciler struct {
	// Client reads from the cache and writes. What the cache does not show yet is created, applied or deleted once more: a create of what
	// exists is refused, and deletes name the UID.
	Client client.Client
	// Deployments reads deployments from the cache and writes their status. Its reads show its writes: a status that the cache does not show
	// yet would be announced twice.
	Deployments client.Client
	// Live reads from the API server: what it cannot show, and what turns out to exist when it is created.
	Live     client.Reader
	Recorder events.EventRecorder
	// Results of the scheduler; Changed delivers an event when one has changed.
	Results *scheduler.Results
	Changed <-chan event.GenericEvent
	// MayRefresh asks the scheduler whether the groups of a deployment may get other levels, because nothing of it is placed; nil for a
	// constraint ends a refresh. See [scheduler.Scheduler.MayRefresh].
	MayRefresh func(context.Context, *nvidiav1beta1.DynamoGraphDeployment, *trellisv1alpha1.ResolvedTopology) bool
	// Providers by name, and Provider, the one for deployments that name none.
	Providers *provider.Registry
	Provider  string
	// MaxPods bounds the pods of one graph; 0: any number.
	MaxPods int64
	// Platform is where pods reach what all graphs share.
	Platform render.Platform
	// Retries after failures, and of reading accounts and Roles of others and resource claims, which are not watched.
	Retries blocked.Retries
	// ChecksDenied is why AdmissionChecks of Kueue cannot be decided; nil where nothing decides them.
	ChecksDenied *quota.Denied

	written  pace.Writes
	uncached uncached
	// sshKeys are the UIDs of the deployments, by name, whose namespace has been given a key pair.
	sshKeys sync.Map
	// joins are the locks of shared objects, by a hash of kind, namespace and name.
	joins [256]sync.Mutex
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/status,verbs=patch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters,verbs=get;list;watch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups/finalizers,verbs=update
// +kubebuilder:rbac:groups=grove.io,resources=clustertopologies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &nvidiav1beta1.DynamoGraphDeployment{}, IndexByProfile, func(o client.Object) []string {
		if profile := constraint.Profile(o.(*nvidiav1beta1.DynamoGraphDeployment)); profile != "" {
			return []string{profile}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing deployments by topology profile: %w", err)
	}
	if err := r.indexPrerequisites(ctx, mgr); err != nil {
		return err
	}
	if err := indexChildren(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	controllers := ctrl.NewControllerManagedBy(mgr)
	r.watchExtras(mgr, controllers)
	return controllers.
		Named("graph").
		For(&nvidiav1beta1.DynamoGraphDeployment{}).
		Owns(&trellisv1alpha1.ScalingGroup{}).
		Watches(&nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}, handler.EnqueueRequestsFromMapFunc(scalingadapter.DeploymentOf)).
		Watches(&grovev1alpha1.ClusterTopology{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(topologyChanged())).
		WatchesRawSource(source.Channel(r.Changed, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.Providers.Changes(), handler.EnqueueRequestsFromMapFunc(r.concernedBy))).
		WithOptions(blocked.Options(workers, r.Retries)).
		Complete(r)
}

func (r *Reconciler) usersOf(ctx context.Context, profile client.Object) []reconcile.Request {
	return r.deploymentsBy(ctx, IndexByProfile, profile.GetName())
}

// concernedBy are the deployments that a change of a provider concerns.
func (r *Reconciler) concernedBy(ctx context.Context, change client.Object) []reconcile.Request {
	if name, one := provider.GraphOf(change); one {
		return []reconcile.Request{{NamespacedName: name}}
	}
	return r.deployments(ctx)
}

// Reconcile observes, decides, applies the children, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := r.Deployments.Get(ctx, req.NamespacedName, dgd); err != nil {
		r.written.Forget(req.NamespacedName)
		r.uncached.forget(req.NamespacedName)
		r.sshKeys.Delete(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if dgd.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // ownership deletes everything
	}
	orphans, err := r.separateFormer(ctx, dgd)
	if err != nil {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, dgd)
	if err != nil {
		return ctrl.Result{}, err
	}
	o.orphans = orphans
	if o.settled, o.overLimit, err = r.settle(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	wanted, problem := decide(o, r.Platform)
	var failure, noted error
	if problem == nil {
		if adopting, err := r.adoptGroups(ctx, o, wanted); adopting {
			return ctrl.Result{}, err
		}
		if o.prerequisites, err = r.lookForPrerequisites(ctx, dgd, wanted); err != nil {
			return ctrl.Result{}, err
		}
		o.shapes = r.countGPUs(ctx, wanted)
		failure, noted = r.applyAndNote(ctx, o, wanted)
		o.notAdopted = notAdopted(o.orphans, wanted, failure)
	}
	statusDue, err := r.report(ctx, o, statusOf(o, wanted, problem, failure))
	if err != nil {
		return ctrl.Result{}, err
	}
	again := sooner(r.againAfter(o, statusDue, failure), progressDueIn(o, o.now))
	if waitsForLeftovers(failure) {
		failure = nil
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(failure, noted)
}

// separateFormer deletes what an earlier deployment of the name owned, and returns what of it has no owner.
func (r *Reconciler) separateFormer(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (orphans []client.Object, err error) {
	labelled, err := r.allLabelled(ctx, dgd)
	if err != nil {
		return nil, err
	}
	if err := r.deleteLeftovers(ctx, dgd, labelled); err != nil {
		return nil, err
	}
	return r.orphansAmong(labelled, dgd)
}

// applyAndNote applies the children, and stores which generations of workers there were and are. noted is what keeps that from being
// stored.
func (r *Reconciler) applyAndNote(ctx context.Context, o observed, wanted *render.Graph) (failure, noted error) {
	noted = r.keepHistory(ctx, o, wanted) // before the groups change: afterwards it is not known what ran
	if failure = r.apply(ctx, o, wanted); failure != nil {
		return failure, noted
	}
	r.reportUndecided(o, wanted)
	r.reportAdopted(o, wanted)
	return nil, errors.Join(noted, r.noteGeneration(ctx, o, wanted))
}

// againAfter is when the deployment is reconciled again without an event; 0 for never.
func (r *Reconciler) againAfter(o observed, statusDue time.Duration, failure error) time.Duration {
	switch {
	case statusDue > 0: // long before the others
		return statusDue
	case waitsForLeftovers(failure):
		return leftoversAgain
	case failure == nil && (o.prerequisites.access.any() || o.shapes.claims):
		return r.Retries.AfterUnwatched()
	}
	return 0
}
