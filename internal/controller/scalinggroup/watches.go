// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

const (
	// indexPodsByGroup finds the pods of a scaling group, and of earlier ones of its name, by that name, and those that it may adopt.
	indexPodsByGroup = "trellis.pods.group"
	// indexPodsByNode finds scaling groups' pods by the node they are bound to.
	indexPodsByNode = "trellis.pods.node"
)

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

// concernedBy are the scaling groups that a change of a provider concerns: all of them, or those of one graph whose replicas the provider
// makes. What others have come to shows in their pods.
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

// groupOf is the scaling group of a pod, or the one that may adopt it.
func groupOf(_ context.Context, pod client.Object) []reconcile.Request {
	if name, ok := groupNamedBy(pod.(*corev1.Pod)); ok {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
	}
	return nil
}
