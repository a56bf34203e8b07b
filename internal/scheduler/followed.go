// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// followed returns the graph of a pod that is gone, and whether this graph will recreate the pod. It returns false if it cannot read the
// graph's objects.
func (c *objects) followed(placements *graphPlacements, gone *corev1.Pod) (types.NamespacedName, bool) {
	sg := c.groupOf(gone)
	if sg == nil || sg.DeletionTimestamp != nil || sg.Spec.Replicas == 0 || !render.Gated(sg) {
		return types.NamespacedName{}, false
	}
	left, err := c.pods(context.Background(), sg.Namespace, gone.Labels[render.LabelGraph])
	if err != nil {
		return types.NamespacedName{}, false
	}
	recorded, err := placements.replicasOf(context.Background(), sg)
	if err != nil {
		return types.NamespacedName{}, false
	}
	left = slices.DeleteFunc(left, func(pod *corev1.Pod) bool { return !render.Member(pod, sg) || pod.UID == gone.UID })
	return types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}, gang.WillBeFollowed(sg, gone, left, recorded)
}
