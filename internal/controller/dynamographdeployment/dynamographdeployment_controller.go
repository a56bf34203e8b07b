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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// IndexByProfile finds deployments by the ClusterTopology they name.
const IndexByProfile = "trellis.profile"

// workers is how many deployments are reconciled at once. The first reconcile of one makes all its children, one request after the other, and
// waits for the answers most of the time; with few workers the statuses of deployments whose pods have become Ready wait behind those of new ones.
const workers = 32

// Reconciler reconciles DynamoGraphDeployments.
type Reconciler struct {
	// Client reads from the cache and writes. What the cache does not show yet is created, applied or deleted once more: a create of what exists is
	// refused, and deletes name the UID.
	Client client.Client
	// Deployments reads deployments from the cache and writes their status. Its reads show its writes: a status that the cache does not show yet
	// would be announced twice.
	Deployments client.Client
	// Live reads past the cache: what it cannot show, and what turns out to exist when it is created.
	Live     client.Reader
	Recorder events.EventRecorder
	// Results of the scheduler; Changed delivers an event when one has changed.
	Results *scheduler.Results
	Changed <-chan event.GenericEvent
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

// observed is everything one reconcile decides from.
type observed struct {
	dgd *nvidiav1beta1.DynamoGraphDeployment
	// now is when it was observed.
	now time.Time
	// stated is the constraint that the deployment states.
	stated constraint.Statement
	// profile is the ClusterTopology the deployment is packed by, nil when there is none.
	profile *grovev1alpha1.ClusterTopology
	// defaults are the default topologies, for a new deployment without a constraint, and nodes those of the cluster, where several count.
	defaults []*grovev1alpha1.ClusterTopology
	nodes    []*corev1.Node
	// groups are the deployment's own scaling groups, by component.
	groups map[string]*trellisv1alpha1.ScalingGroup
	// adapters are the scaling adapters of the deployment's name.
	adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
	// settled is the deployment with the replicas it may be given now, and overLimit says that these are fewer than it asks for, since its pods
	// would be too many, or "": see [settle].
	settled   *nvidiav1beta1.DynamoGraphDeployment
	overLimit string
	// result of the scheduler; judged is false while there is none since the operator started.
	result gang.Result
	judged bool
	// provider of the deployment, and whether it works.
	provider providerView
	// workload is what has come of it under a provider that makes the pods itself; nil under others.
	workload *provider.Observation
	// orphans are objects of earlier deployments of this name that have no owner; notAdopted is what stays of them, known once children are applied.
	orphans    []client.Object
	notAdopted []*orphan
	// prerequisites are what the deployment needs and Trellis does not make; known once the deployment is resolved.
	prerequisites prerequisites
	// history are the stored generations of its workers, the newest first.
	history []*appsv1.ControllerRevision
	// quota is what Kueue has given the deployment; nil when it is in no queue.
	quota *quota.Report
	// shapes are the GPUs of one replica of each component, known once the deployment is resolved.
	shapes shapes
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
	labelled, err := r.allLabelled(ctx, dgd)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.deleteLeftovers(ctx, dgd, labelled); err != nil {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, dgd)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.orphans, err = r.orphansAmong(labelled, dgd); err != nil {
		return ctrl.Result{}, err
	}
	o.settled, o.overLimit = settle(o, r.MaxPods)
	var noted error
	wanted, problem := decide(o, r.Platform)
	if problem == nil {
		if adopting, err := r.adoptGroups(ctx, o, wanted); adopting {
			return ctrl.Result{}, err
		}
		if o.prerequisites, err = r.lookForPrerequisites(ctx, dgd, wanted); err != nil {
			return ctrl.Result{}, err
		}
		o.shapes = r.countGPUs(ctx, wanted)
		noted = r.keepHistory(ctx, o, wanted) // before the groups change: afterwards it is not known what ran
		if err = r.apply(ctx, o, wanted); err == nil {
			r.reportUndecided(o, wanted)
			r.reportAdopted(o, wanted)
			noted = errors.Join(noted, r.noteGeneration(ctx, o, wanted))
		}
		o.notAdopted = notAdopted(o.orphans, wanted, err)
	}
	again, reportErr := r.report(ctx, o, statusOf(o, wanted, problem, err))
	if reportErr != nil {
		return ctrl.Result{}, reportErr
	}
	switch {
	case again > 0: // the rest of the status is due, long before the others
	case waitsForLeftovers(err):
		again = leftoversAgain
	case err == nil && (o.prerequisites.access.any() || o.shapes.claims):
		again = r.Retries.AfterUnwatched()
	}
	if waitsForLeftovers(err) {
		err = nil
	}
	return ctrl.Result{RequeueAfter: sooner(again, progressDueIn(o, o.now))}, errors.Join(err, noted)
}

// observe reads what the deployment is decided by.
func (r *Reconciler) observe(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (observed, error) {
	o := observed{dgd: dgd, now: time.Now()}
	o.stated = constraint.StatementOf(dgd)
	name := client.ObjectKeyFromObject(dgd)
	var err error
	if o.groups, err = r.groupsOf(ctx, dgd); err != nil {
		return o, err
	}
	if o.adapters, err = scalingadapter.List(ctx, r.Client, name); err != nil {
		return o, err
	}
	if err := r.observeDefaults(ctx, &o); err != nil {
		return o, err
	}
	if o.profile, err = r.topologyOf(ctx, o); err != nil {
		return o, err
	}
	o.provider = r.providerOf(ctx, o)
	if o.workload, err = r.observeWorkload(ctx, o); err != nil {
		return o, err
	}
	if o.quota, err = r.quotaOf(ctx, o); err != nil {
		return o, err
	}
	if o.history, err = r.historyOf(ctx, dgd); err != nil {
		return o, err
	}
	o.result, o.judged = r.Results.Get(name, dgd.UID)
	return o, nil
}

// groupsOf are the deployment's own scaling groups, by component.
func (r *Reconciler) groupsOf(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (map[string]*trellisv1alpha1.ScalingGroup, error) {
	list, err := scheduler.GroupsOf(ctx, r.Client, dgd.Namespace, dgd.UID)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*trellisv1alpha1.ScalingGroup, len(list))
	for _, sg := range list {
		groups[sg.Spec.Service] = sg
	}
	return groups, nil
}

// topologyOf is the topology that the deployment is packed by; nil where there is none.
func (r *Reconciler) topologyOf(ctx context.Context, o observed) (*grovev1alpha1.ClusterTopology, error) {
	name := o.profileName()
	if name == "" {
		return nil, nil
	}
	profile := &grovev1alpha1.ClusterTopology{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, profile)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ClusterTopology %q: %w", name, err)
	}
	return profile, nil
}
