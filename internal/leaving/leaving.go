// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaving determines which nodes are to leave the cluster, and reads the requests to evict pods. It is pure.
//
//	cordoned, with the annotation trellis.dev/drain      kubectl trellis drain
//	a taint karpenter.sh/disrupted                       Karpenter
//	a taint ToBeDeletedByClusterAutoscaler               Cluster Autoscaler
//	a taint of --leaving-taints                          others
//	a condition MaintenancePlanned or DrainInProgress    node maintenance
//
// Trellis places nothing on these nodes, and moves replicas away from them. A node that is only cordoned keeps its pods.
package leaving

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationDrain marks a node that kubectl trellis drain drains. Its value is the time of that command. The annotation has an effect only
// while the node is cordoned.
const AnnotationDrain = "trellis.dev/drain"

// DefaultTaints are the keys of the taints that autoscalers put on nodes before they remove the nodes.
var DefaultTaints = []string{"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"}

// Conditions are the types of node conditions that announce the termination of a node's pods.
var Conditions = []corev1.NodeConditionType{"MaintenancePlanned", "DrainInProgress"}

// Rules determine which nodes leave the cluster. The zero value includes DefaultTaints.
type Rules struct {
	// Taints are the keys of further taints.
	Taints []string
}

// Why returns the reason why a node leaves; "" if it stays.
func (r Rules) Why(node *corev1.Node) string {
	if _, named := node.Annotations[AnnotationDrain]; named && node.Spec.Unschedulable {
		return fmt.Sprintf("node %s is drained", node.Name)
	}
	for i := range node.Spec.Taints {
		if key := node.Spec.Taints[i].Key; slices.Contains(DefaultTaints, key) || slices.Contains(r.Taints, key) {
			return fmt.Sprintf("node %s has the taint %s", node.Name, key)
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Status == corev1.ConditionTrue && slices.Contains(Conditions, c.Type) {
			return fmt.Sprintf("node %s has the condition %s", node.Name, c.Type)
		}
	}
	return ""
}
