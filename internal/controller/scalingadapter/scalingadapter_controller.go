// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scalingadapter maintains the DynamoGraphDeploymentScalingAdapters of a deployment: it creates and deletes them, copies their
// replica counts into the deployment, and reports the status for autoscalers.
//
//	autoscaler ──scale──> adapter.spec.replicas ──carried──> deployment.spec.components[x].replicas
//	                      adapter.status        <──counted── ScalingGroup.status
//
// One reconcile covers one deployment and all its adapters. A burst of changes, of one or several adapters, becomes one patch of the
// deployment with the last replica counts. Package replicas defines which object owns a replica count.
package scalingadapter

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// IndexByDeployment indexes adapters by the name of the deployment that they scale.
const IndexByDeployment = "trellis.dgdRef"

// Reconciler reconciles the adapters of DynamoGraphDeployments.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache, before the deletion of an object that seems to belong to an earlier deployment.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// MaxPods limits the pods of one graph; 0 means no limit.
	MaxPods int64
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters/status,verbs=patch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// AddIndexes registers the indexes that this controller and the graph controller use.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}, IndexByDeployment, func(o client.Object) []string {
		return []string{o.(*nvidiav1beta1.DynamoGraphDeploymentScalingAdapter).Spec.DGDRef.Name}
	})
	if err != nil {
		return fmt.Errorf("indexing scaling adapters by deployment: %w", err)
	}
	return nil
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("scalingadapter").
		For(&nvidiav1beta1.DynamoGraphDeployment{}).
		Owns(&trellisv1alpha1.ScalingGroup{}).
		Watches(&nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}, handler.EnqueueRequestsFromMapFunc(DeploymentOf)).
		WithOptions(blocked.Options(4, blocked.Retries{})).
		Complete(r)
}

// DeploymentOf returns the request for the deployment that an adapter names.
func DeploymentOf(_ context.Context, o client.Object) []reconcile.Request {
	adapter := o.(*nvidiav1beta1.DynamoGraphDeploymentScalingAdapter)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: adapter.Namespace, Name: adapter.Spec.DGDRef.Name}}}
}

// observed is the input of one reconcile.
type observed struct {
	// dgd is nil when the deployment does not exist or is being deleted.
	dgd      *nvidiav1beta1.DynamoGraphDeployment
	adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
	groups   map[string]*trellisv1alpha1.ScalingGroup
}

// Reconcile creates, adopts and deletes adapters as the deployment requests, copies the adapters' replica counts into the deployment, and
// reports the adapters' status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.dgd == nil {
		return ctrl.Result{}, r.report(ctx, o, outcome{})
	}
	applied := r.apply(ctx, o.dgd, plan(o.dgd, o.adapters))
	out, carried := r.carry(ctx, o)
	return ctrl.Result{}, errors.Join(applied, carried, r.report(ctx, o, out))
}

func (r *Reconciler) observe(ctx context.Context, req ctrl.Request) (observed, error) {
	o := observed{groups: map[string]*trellisv1alpha1.ScalingGroup{}}
	adapters, err := List(ctx, r.Client, req.NamespacedName)
	if err != nil {
		return o, err
	}
	o.adapters = adapters
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, dgd); err != nil {
		return o, client.IgnoreNotFound(err)
	}
	if dgd.DeletionTimestamp != nil {
		return o, nil
	}
	o.dgd = dgd
	groups, err := scheduler.GroupsOf(ctx, r.Client, req.Namespace, dgd.UID)
	for _, sg := range groups {
		o.groups[sg.Spec.Component] = sg
	}
	return o, err
}

// List returns the adapters that name a deployment, regardless of who created them.
func List(ctx context.Context, c client.Reader, dgd client.ObjectKey) ([]nvidiav1beta1.DynamoGraphDeploymentScalingAdapter, error) {
	adapters := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapterList{}
	if err := c.List(ctx, adapters, client.InNamespace(dgd.Namespace), client.MatchingFields{IndexByDeployment: dgd.Name}); err != nil {
		return nil, fmt.Errorf("listing scaling adapters: %w", err)
	}
	return adapters.Items, nil
}
