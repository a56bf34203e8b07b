// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustertopology reports how the cluster's nodes match each ClusterTopology, and which deployments use it.
package clustertopology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	graphcontroller "github.com/trellis-k8s/trellis/internal/controller/dynamographdeployment"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// Reconciler writes the status of ClusterTopologies.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	// Providers reports whether the providers in Topologies are ready.
	Providers *provider.Registry
	// Topologies are the providers that have their own topology objects.
	Topologies []ProviderTopology
	// Bindings reads the ClusterTopologyBindings that Trellis did not write; nil: they are not read.
	Bindings Bindings

	scans scans
	// reported has, by name of a Binding, the conditions that were last reported as events. Only the controller's single worker accesses
	// it.
	reported map[string]grovev1alpha1.ClusterTopologyStatus
	// written has the time of the last write of each status. It limits the writes, because each new deployment changes the number of
	// deployments that use a topology.
	written pace.Writes
}

// +kubebuilder:rbac:groups=grove.io,resources=clustertopologies/status,verbs=patch

// SetupWithManager registers the controller. A node update triggers a reconcile only if the node's labels have changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	relabelled := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) },
	}
	topologyChanged := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
	}
	// A new, changed or removed default topology can change the condition Default of the other default topologies.
	isDefault := func(o client.Object) bool { return o.GetAnnotations()[constraint.AnnotationDefault] == "true" }
	defaultChanged := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isDefault(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			changed := isDefault(e.ObjectOld) != isDefault(e.ObjectNew)
			before, now := e.ObjectOld.(*grovev1alpha1.ClusterTopology), e.ObjectNew.(*grovev1alpha1.ClusterTopology)
			return changed || isDefault(now) && !maps.Equal(before.Spec.NodeSelector, now.Spec.NodeSelector)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return isDefault(e.Object) },
	}
	newGroup := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clustertopology").
		Watches(&trellisv1alpha1.ScalingGroup{}, spaced(topologyOfGroup), builder.WithPredicates(newGroup)).
		WatchesRawSource(source.Channel(r.providersChanged(), handler.EnqueueRequestsFromMapFunc(r.all))).
		For(&grovev1alpha1.ClusterTopology{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.nodeEvent), builder.WithPredicates(relabelled)).
		Watches(&nvidiav1beta1.DynamoGraphDeployment{}, spaced(topologyNameOf), builder.WithPredicates(topologyChanged)).
		Watches(&grovev1alpha1.ClusterTopology{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(defaultChanged)).
		WithOptions(blocked.Options(1, blocked.Retries{})).
		Complete(r)
}

func (r *Reconciler) nodeEvent(ctx context.Context, node client.Object) []reconcile.Request {
	r.scans.nodes.Add(1)
	return r.all(ctx, node)
}

func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	topologies := &grovev1alpha1.ClusterTopologyList{}
	if err := r.Client.List(ctx, topologies); err != nil {
		log.FromContext(ctx).Error(err, "listing topologies")
		return nil
	}
	out := make([]reconcile.Request, 0, len(topologies.Items))
	for i := range topologies.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&topologies.Items[i])})
	}
	return out
}

func topologyNameOf(_ context.Context, o client.Object) []reconcile.Request {
	ct := constraint.TopologyName(o.(*nvidiav1beta1.DynamoGraphDeployment))
	if ct == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ct}}}
}

// Reconcile scans the nodes and writes the status if it changed. For a Binding, whose status Grove owns, it records events instead.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ct := &grovev1alpha1.ClusterTopology{}
	if err := r.Client.Get(ctx, req.NamespacedName, ct); err != nil {
		r.written.Forget(req.NamespacedName)
		if apierrors.IsNotFound(err) {
			r.reportUnread(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	status, failure, err := r.observe(ctx, ct)
	if err != nil {
		return ctrl.Result{}, err
	}
	if ct.FromBinding() {
		r.reportBinding(ct, status)
		return ctrl.Result{}, failure
	}
	r.compareBinding(ct, &status)
	again, err := r.report(ctx, ct, status)
	return ctrl.Result{RequeueAfter: again}, errors.Join(failure, err)
}

// observe returns the status of a topology. failure is the reason why providers' topology objects could not be updated.
func (r *Reconciler) observe(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (
	status grovev1alpha1.ClusterTopologyStatus, failure, err error) {
	scan, err := r.scans.of(ctx, ct, r.Client)
	if err != nil {
		return status, nil, err
	}
	users := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, users, client.MatchingFields{graphcontroller.IndexByTopology: ct.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return status, nil, fmt.Errorf("listing the deployments that use the topology: %w", err)
	}
	topologies := &grovev1alpha1.ClusterTopologyList{}
	if err := r.Client.List(ctx, topologies, client.UnsafeDisableDeepCopy); err != nil {
		return status, nil, fmt.Errorf("listing topologies: %w", err)
	}
	status = statusOf(ct, scan, users.Items, constraint.Defaults(topologies.Items))
	kept, failure := r.keepTopologies(ctx, ct)
	setSchedulersInSync(ct, &status, kept)
	return status, failure, nil
}

// report writes the status if it changed. If the change can wait, report returns the remaining wait; see [pace].
func (r *Reconciler) report(ctx context.Context, ct *grovev1alpha1.ClusterTopology, status grovev1alpha1.ClusterTopologyStatus) (
	again time.Duration, err error) {
	name := client.ObjectKeyFromObject(ct)
	if equality.Semantic.DeepEqual(ct.Status, status) {
		r.written.Settled(name)
		return 0, nil
	}
	if again = r.written.Left(name); again > 0 && ct.Status.ObservedGeneration == status.ObservedGeneration &&
		!pace.Turned(ct.Status.Conditions, status.Conditions) {
		return again, nil
	}
	changed := ct.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(ct)); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.written.Wrote(name)
	r.announce(ct, status)
	return 0, nil
}

// announce records a warning for each condition that turned False, except for InUse.
func (r *Reconciler) announce(ct *grovev1alpha1.ClusterTopology, status grovev1alpha1.ClusterTopologyStatus) {
	for _, c := range status.Conditions {
		before := meta.FindStatusCondition(ct.Status.Conditions, c.Type)
		if c.Status == metav1.ConditionFalse && c.Type != grovev1alpha1.ConditionInUse && (before == nil || before.Status != c.Status) {
			r.Recorder.Eventf(ct, nil, corev1.EventTypeWarning, c.Reason, "Report", "%s: %s", c.Type, c.Message)
		}
	}
}
