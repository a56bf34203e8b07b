// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dynamographdeployment turns DynamoGraphDeployments into scaling groups and Services, and reports their state.
//
// It is the only writer of a deployment's status. It reads the counts of the scaling groups from the cache, and the scheduler's results
// from memory. A deployment that was created while no webhook was available may be invalid. The controller reports an invalid deployment
// and otherwise leaves it unchanged, and its running pods continue.
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

// IndexByTopology indexes deployments by the name of their ClusterTopology.
const IndexByTopology = "trellis.clusterTopology"

// workers is the number of deployments that are reconciled at once. The first reconcile of a deployment creates its
// children one by one and mostly waits for the API server; with few workers, the statuses of deployments whose pods become
// Ready would wait behind new deployments.
const workers = 32

// Reconciler reconciles DynamoGraphDeployments.
type Reconciler struct {
	// Client reads from the cache and writes. A reconcile may repeat a create, an apply or a delete that the cache does not show yet. That
	// is harmless: the API server refuses a second create, and each delete has the UID as a precondition.
	Client client.Client
	// Deployments reads deployments from the cache and writes their status. Its reads show its own writes. Otherwise the events for a
	// status that the cache does not show yet would be sent twice.
	Deployments client.Client
	// Live reads from the API server. It reads objects that the cache cannot show, and existing objects after a refused create.
	Live     client.Reader
	Recorder events.EventRecorder
	// Results are the results of the scheduler. Changed delivers an event for each change of a result.
	Results *scheduler.Results
	Changed <-chan event.GenericEvent
	// MayRefresh reports whether the groups of a deployment may get new topology levels: if none of its pods is released or being released.
	// A nil constraint ends an unwanted refresh. See [scheduler.Scheduler.MayRefresh].
	MayRefresh func(context.Context, *nvidiav1beta1.DynamoGraphDeployment, *trellisv1alpha1.ResolvedTopology) bool
	// Providers has the providers by name. Provider is the name of the default provider, for deployments that name none.
	Providers *provider.Registry
	Provider  string
	// MaxPods is the maximum number of pods of one graph; 0: no limit.
	MaxPods int64
	// Platform holds the addresses of the services that all graphs share.
	Platform render.Platform
	// Retries are the delays after failed reconciles, and between reads of objects that are not watched: resource claims, and other
	// clients' ServiceAccounts and Roles.
	Retries blocked.Retries
	// ChecksDenied has the reason why the operator cannot read Kueue's AdmissionChecks; nil if the operator does not handle
	// AdmissionChecks.
	ChecksDenied *quota.Denied

	written  pace.Writes
	uncached uncached
	// sshKeys has, by deployment name, the UIDs of the deployments whose namespace has the SSH key pair.
	sshKeys sync.Map
	// joins has the locks of shared objects, by a hash of kind, namespace and name; see [Reconciler.lockOf].
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
	if err := mgr.GetFieldIndexer().IndexField(ctx, &nvidiav1beta1.DynamoGraphDeployment{}, IndexByTopology, func(o client.Object) []string {
		if name := constraint.TopologyName(o.(*nvidiav1beta1.DynamoGraphDeployment)); name != "" {
			return []string{name}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing deployments by ClusterTopology: %w", err)
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

func (r *Reconciler) usersOf(ctx context.Context, ct client.Object) []reconcile.Request {
	return r.deploymentsBy(ctx, IndexByTopology, ct.GetName())
}

// concernedBy returns the deployments to reconcile after a change of a provider's object.
func (r *Reconciler) concernedBy(ctx context.Context, change client.Object) []reconcile.Request {
	if name, one := provider.GraphOf(change); one {
		return []reconcile.Request{{NamespacedName: name}}
	}
	return r.deployments(ctx)
}

// Reconcile reads the state of a deployment, resolves and applies the wanted children, and reports the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := r.Deployments.Get(ctx, req.NamespacedName, dgd); err != nil {
		r.written.Forget(req.NamespacedName)
		r.uncached.forget(req.NamespacedName)
		r.sshKeys.Delete(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if dgd.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector deletes its children
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

// separateFormer deletes the children that an earlier deployment of the same name owned, and returns the orphans, which are its children
// without an owner.
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

// applyAndNote stores the running and the wanted generation of workers, and applies the children. failure is the error from applying the
// children, and noted is the error from storing generations.
func (r *Reconciler) applyAndNote(ctx context.Context, o observed, wanted *render.Graph) (failure, noted error) {
	noted = r.keepHistory(ctx, o, wanted) // before the groups change: afterwards the running generation is unknown
	if failure = r.apply(ctx, o, wanted); failure != nil {
		return failure, noted
	}
	r.reportUndecided(o, wanted)
	r.reportAdopted(o, wanted)
	return nil, errors.Join(noted, r.noteGeneration(ctx, o, wanted))
}

// againAfter returns when to reconcile the deployment again without an event; 0 for never.
func (r *Reconciler) againAfter(o observed, statusDue time.Duration, failure error) time.Duration {
	switch {
	case statusDue > 0: // always sooner than the others
		return statusDue
	case waitsForLeftovers(failure):
		return leftoversAgain
	case failure == nil && (o.prerequisites.access.any() || o.shapes.claims):
		return r.Retries.AfterUnwatched()
	}
	return 0
}
