// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// indexPodsByGroup indexes pods by the name of their scaling group, including pods of earlier groups of that name and pods that the group
// may adopt.
const indexPodsByGroup = "trellis.pods.group"

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodsByGroup, func(o client.Object) []string {
		name, _ := groupNamedBy(o.(*corev1.Pod))
		return []string{name}
	}); err != nil {
		return fmt.Errorf("indexing pods by group: %w", err)
	}
	if err := indexer.IndexField(ctx, &policyv1.PodDisruptionBudget{}, indexBudgetsOfOthers, budgetOwner); err != nil {
		return fmt.Errorf("indexing PodDisruptionBudgets by owner: %w", err)
	}
	return nil
}

// onNodes triggers a reconcile of the groups with pods on a node when the node becomes ready or stops being ready, is cordoned or
// uncordoned, is to be removed, or is gone.
func (r *Reconciler) onNodes() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			old, node := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if topology.Ready(old) != topology.Ready(node) || old.Spec.Unschedulable != node.Spec.Unschedulable ||
				r.Leaving.Why(old) != r.Leaving.Why(node) {
				r.addGroupsOnNode(ctx, node, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.addGroupsOnNode(ctx, e.Object, queue)
		},
	}
}

// addGroupsOnNode queues the groups with pods on a node.
func (r *Reconciler) addGroupsOnNode(
	ctx context.Context, node client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.MatchingFields{scheduler.IndexPodsByNode: node.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods of a node", "node", node.GetName())
		return
	}
	seen := map[reconcile.Request]bool{}
	for i := range pods.Items {
		for _, request := range groupOf(ctx, &pods.Items[i]) {
			if !seen[request] {
				queue.Add(request)
			}
			seen[request] = true
		}
	}
}

// concernedBy returns the scaling groups to reconcile after a change of a provider. If the change concerns one graph, it returns only the
// graph's groups that depend on another system, because the events of their own pods trigger the other groups.
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

// groupOf returns the scaling group of a pod, or the group that may adopt it.
func groupOf(_ context.Context, pod client.Object) []reconcile.Request {
	if name, ok := groupNamedBy(pod.(*corev1.Pod)); ok {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
	}
	return nil
}
