// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scalinggroup makes the pods of scaling groups and counts their replicas.
//
// A pod is created once and never changed here: placing it is the provider's, replacing it is the way to update it. Names are
// deterministic, so creating a pod twice is harmless; every deletion names the pod's UID, so a successor is never hit.
package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// indexPodsByGroup finds the pods of a scaling group, and of earlier ones of its name, by that name, and those that it may adopt.
	indexPodsByGroup = "trellis.pods.group"
	// indexPodsByNode finds scaling groups' pods by the node they are bound to.
	indexPodsByNode = "trellis.pods.node"
)

// Reconciler makes a scaling group's pods.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache, before something is destroyed because it seems gone.
	Live client.Reader
	// Providers by name.
	Providers *provider.Registry
	// MaxPods bounds the pods of one graph: no pod is made for a graph whose groups ask for more together. 0: any number.
	MaxPods int64
	// HoldFor is how long the capacity of a lost replica is held for its successor (scheduler.Options).
	HoldFor time.Duration
	// Retries after failures.
	Retries blocked.Retries

	refusals refusals
	written  pace.Writes
}

// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=trellis.dev,resources=scalinggroups/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.refusals.first = r.Retries.First
	nodeChanged := predicate.Funcs{ // or not ready any more, or ready again
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return topology.Ready(e.ObjectOld.(*corev1.Node)) != topology.Ready(e.ObjectNew.(*corev1.Node))
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("scalinggroup").
		For(&trellisv1alpha1.ScalingGroup{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(groupOf)).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.refusedIn), builder.WithPredicates(blocked.QuotaEased())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.groupsOnNode), builder.WithPredicates(nodeChanged)).
		WatchesRawSource(source.Channel(r.Providers.Changes(), handler.EnqueueRequestsFromMapFunc(r.concernedBy))).
		WithOptions(blocked.Options(16, r.Retries)). // they wait for the API server most of the time
		Complete(r)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	owner := func(o client.Object) string {
		name, _ := groupNamedBy(o.(*corev1.Pod))
		return name
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodsByGroup, func(o client.Object) []string {
		return []string{owner(o)}
	}); err != nil {
		return fmt.Errorf("indexing pods by group: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodsByNode, func(o client.Object) []string {
		if owner(o) == "" {
			return nil
		}
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}); err != nil {
		return fmt.Errorf("indexing pods by node: %w", err)
	}
	return nil
}

func (r *Reconciler) groupsOnNode(ctx context.Context, node client.Object) []reconcile.Request {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.MatchingFields{indexPodsByNode: node.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods of a node", "node", node.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		out = append(out, groupOf(ctx, &pods.Items[i])...)
	}
	return out
}

// concernedBy are the scaling groups that a change of a provider concerns: all of them, or those of one graph whose replicas the provider makes.
// What others have come to shows in their pods.
func (r *Reconciler) concernedBy(ctx context.Context, change client.Object) []reconcile.Request {
	name, one := provider.GraphOf(change)
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(name.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups that a change of a provider concerns", "graph", name)
		return nil
	}
	var out []reconcile.Request
	for i := range groups.Items {
		sg := &groups.Items[i]
		if !one || sg.Spec.Graph == name.Name && r.dependsOnOthers(sg) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(sg)})
		}
	}
	return out
}

// refusedIn are the scaling groups of a quota's namespace whose pods the API server refuses.
func (r *Reconciler) refusedIn(ctx context.Context, quota client.Object) []reconcile.Request {
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(quota.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups of a namespace whose quota allows more", "quota", quota.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range groups.Items {
		if sg := &groups.Items[i]; meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync) {
			r.refusals.retry(client.ObjectKeyFromObject(sg))
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(sg)})
		}
	}
	return out
}

// groupOf is the scaling group of a pod, or the one that may adopt it.
func groupOf(_ context.Context, pod client.Object) []reconcile.Request {
	if name, ok := groupNamedBy(pod.(*corev1.Pod)); ok {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
	}
	return nil
}

// Reconcile observes the group's pods, decides, writes pods, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	sg := &trellisv1alpha1.ScalingGroup{}
	err := r.Client.Get(ctx, req.NamespacedName, sg)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if apierrors.IsNotFound(err) {
		r.refusals.forget(req.NamespacedName)
		r.written.Forget(req.NamespacedName)
	}
	if sg.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector deletes the pods
	}
	pods, failure := r.podsOf(ctx, req.NamespacedName, sg)
	if failure == nil {
		failure = r.deleteLeftovers(ctx, req.NamespacedName, sg.UID, pods.earlier)
	}
	if failure != nil || apierrors.IsNotFound(err) {
		return ctrl.Result{}, failure
	}
	if workload := r.Providers.Workload(sg.Spec.Provider); workload != nil {
		again, err := r.countWorkload(ctx, sg, workload)
		return ctrl.Result{RequeueAfter: again}, err
	}
	adopting, refused := r.adopt(ctx, sg, pods.orphans)
	if adopting && refused == nil {
		return ctrl.Result{}, nil
	}
	replicas := replicasOf(sg, pods.own, func(pod *corev1.Pod) bool { return r.nodeGone(ctx, pod) })
	if err := r.lookForSets(ctx, sg, replicas); err != nil {
		return ctrl.Result{}, err
	}
	ends := r.lookForEnds(ctx, replicas)
	next, failing := plan(sg, replicas), backOffOf(sg, replicas, r.refusals.clock())
	if err := r.remember(ctx, sg, failing); err != nil {
		return ctrl.Result{}, err
	}
	steps, err := r.stepsFor(ctx, sg, pods.own, replicas, failing.without(next))
	if err != nil {
		return ctrl.Result{}, err
	}
	steps.waitFor(pods.earlier, pods.orphans)
	allowed, err := r.mayMake(ctx, sg, &steps)
	if err != nil || allowed.gone {
		return ctrl.Result{}, err
	}
	failure = errors.Join(refused, r.apply(ctx, sg, steps))
	result := ctrl.Result{RequeueAfter: earliest(ends, earliest(allowed.again, failing.again))}
	if failure == nil && steps.onlyMake() {
		if steps.more {
			result.RequeueAfter = time.Millisecond
		}
		return result, nil // the new pods will be seen in a moment, and reported then
	}
	shown := errors.Join(allowed.refused, failure)
	status := statusOf(sg, replicas, next, func(node string) map[string]string { return r.nodeLabels(ctx, node) }, shown)
	failing.into(sg, replicas, &status)
	again, err := r.report(ctx, sg, status)
	result.RequeueAfter = earliest(result.RequeueAfter, again)
	return result, errors.Join(failure, err)
}

// remember stores new failures, before the pods that show them are deleted.
func (r *Reconciler) remember(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, failing backOff) error {
	if !failing.isNew {
		return nil
	}
	before := sg.DeepCopy()
	sg.Status.FailedReplicas = failing.failed
	return wrapped(client.IgnoreNotFound(r.Client.Status().Patch(ctx, sg.DeepCopy(), client.MergeFrom(before))), "writing the failures into the status")
}

// earliest of two times from now on; 0 is never.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// nodeGone asks the API server before it believes that a pod's node does not exist: the cache may not have seen a new node yet.
func (r *Reconciler) nodeGone(ctx context.Context, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || r.nodeLabels(ctx, pod.Spec.NodeName) != nil {
		return false
	}
	return apierrors.IsNotFound(r.Live.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{}))
}

// nodeLabels returns the labels of a node in the cache, or nil when it is not there.
func (r *Reconciler) nodeLabels(ctx context.Context, name string) map[string]string {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil
	}
	if node.Labels == nil {
		return map[string]string{}
	}
	return node.Labels
}

// report writes the status when it changed. Progress that can wait is written after again, in another reconcile.
func (r *Reconciler) report(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, status trellisv1alpha1.ScalingGroupStatus) (again time.Duration, err error) {
	if equality.Semantic.DeepEqual(sg.Status, status) {
		return 0, nil
	}
	name := client.ObjectKeyFromObject(sg)
	if again = r.written.Left(name); again > 0 && canWait(sg, &status) {
		return again, nil
	}
	changed := sg.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(sg)); err != nil {
		return 0, wrapped(client.IgnoreNotFound(err), "writing the status")
	}
	r.written.Wrote(name)
	return 0, nil
}

// canWait: nobody acts on the change. Deployments go by conditions, generations and whether all replicas serve or none is outdated; failures
// and revisions are what the next reconciles decide by.
func canWait(sg *trellisv1alpha1.ScalingGroup, now *trellisv1alpha1.ScalingGroupStatus) bool {
	before := &sg.Status
	serve := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.ReadyReplicas >= sg.Spec.Replicas }
	current := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.OutdatedReplicas == 0 }
	return before.ObservedGeneration == now.ObservedGeneration && before.Revision == now.Revision && before.Restart == now.Restart &&
		serve(before) == serve(now) && current(before) == current(now) && !pace.Turned(before.Conditions, now.Conditions) &&
		equality.Semantic.DeepEqual(before.FailedReplicas, now.FailedReplicas)
}
