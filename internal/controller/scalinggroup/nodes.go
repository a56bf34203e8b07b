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

// gone asks the API server before it believes that a pod's node does not exist: the cache may not have seen a new node yet.
func (n nodes) gone(ctx context.Context, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || n.labels(ctx, pod.Spec.NodeName) != nil {
		return false
	}
	return apierrors.IsNotFound(n.live.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &corev1.Node{}))
}

// labels returns the labels of a node in the cache, or nil when it is not there.
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

// ready reports whether a node is ready, by the cache; one that is not there is not.
func (n nodes) ready(ctx context.Context, name string) bool {
	node := &corev1.Node{}
	return n.client.Get(ctx, types.NamespacedName{Name: name}, node) == nil && topology.Ready(node)
}

// of is the node of a pod as the cache has it, or nil. It is not to be changed.
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
