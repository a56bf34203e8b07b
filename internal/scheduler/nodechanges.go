// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// nodeChanged applies the new state of a node. It returns the released pods that are planned on the node, because the node may no longer
// suit these pods.
func (l *ledger) nodeChanged(old, node *corev1.Node) []*corev1.Pod {
	if old != nil && SameCapacity(old, node) {
		return nil // a heartbeat
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cluster.SetNode(node)
	l.refused.nodeDiffers(old, node)
	return l.plannedOn(node.Name)
}

// SameCapacity reports whether the planner treats two states of a node alike.
func SameCapacity(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && topology.Ready(a) == topology.Ready(b) &&
		leaving.Rules{}.Why(a) == leaving.Rules{}.Why(b) &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable) &&
		slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
}

// nodeGone forgets a node, and returns the released pods that are planned there.
func (l *ledger) nodeGone(node *corev1.Node) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cluster.DeleteNode(node.Name)
	l.refused.nodeDiffers(node, nil)
	return l.plannedOn(node.Name)
}
