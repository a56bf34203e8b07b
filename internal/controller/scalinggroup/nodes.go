// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// nodes reads nodes.
type nodes struct {
	client client.Reader
	live   client.Reader
}

func (r *Reconciler) nodes() nodes { return nodes{r.Client, r.Live} }

// gone reports whether the node of a pod does not exist. If the cache does not show the node, gone asks the API server, because the node
// may be new.
func (n nodes) gone(ctx context.Context, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || n.labels(ctx, pod.Spec.NodeName) != nil {
		return false
	}
	return apierrors.IsNotFound(n.live.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{}))
}

// labels returns the labels of a node from the cache; nil if the cache does not show the node.
func (n nodes) labels(ctx context.Context, name string) map[string]string {
	node := &corev1.Node{}
	if err := n.client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil
	}
	if node.Labels == nil {
		return map[string]string{}
	}
	return node.Labels
}

// ready reports whether the cache shows a node and the node is ready.
func (n nodes) ready(ctx context.Context, name string) bool {
	node := &corev1.Node{}
	return n.client.Get(ctx, types.NamespacedName{Name: name}, node) == nil && topology.Ready(node)
}

// of returns the node of a pod from the cache, or nil. The caller must not change the node.
func (n nodes) of(ctx context.Context, pod *corev1.Pod) *corev1.Node {
	node := &corev1.Node{}
	if pod.Spec.NodeName == "" {
		return nil
	}
	if n.client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return node
}
