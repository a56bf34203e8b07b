// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

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
