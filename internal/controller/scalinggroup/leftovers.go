// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// podsOf returns the pods of the group with this UID, and those of earlier groups of its name. With no UID there is no such group, and all are
// of earlier ones.
func (r *Reconciler) podsOf(ctx context.Context, group types.NamespacedName, uid types.UID) (own, earlier []*corev1.Pod, err error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(group.Namespace), client.MatchingFields{indexPodsByGroup: group.Name}); err != nil {
		return nil, nil, fmt.Errorf("listing the pods of the group: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, of, _ := graph.GroupOf(pod); of == uid {
			own = append(own, pod)
		} else if isLeftover(pod, group.Name, uid) {
			earlier = append(earlier, pod)
		}
	}
	return own, earlier, nil
}

// isLeftover says that a pod belongs to an earlier group of this name. Those of a LeaderWorkerSet are not ours to delete: it would make them again.
func isLeftover(pod *corev1.Pod, group string, uid types.UID) bool {
	return leftovers.Of(pod, "ScalingGroup", group, uid)
}

// deleteLeftovers deletes the pods of earlier groups of this name. The events of their end bring the next reconcile.
func (r *Reconciler) deleteLeftovers(ctx context.Context, group types.NamespacedName, uid types.UID, pods []*corev1.Pod) error {
	var todo []func() error
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			todo = append(todo, func() error {
				log.FromContext(ctx).Info("deleting a pod", "pod", pod.Name, "why", "it belongs to an earlier scaling group of this name")
				return leftovers.Delete(ctx, r.Client, pod)
			})
		}
	}
	if len(todo) == 0 {
		return nil
	}
	owner := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: group.Name, UID: uid}}
	current, err := leftovers.Current(ctx, r.Live, owner)
	if err != nil || !current {
		return err
	}
	return inParallel(todo)
}

// waitFor leaves out pods whose names pods of earlier groups still have.
func (s *steps) waitFor(earlier []*corev1.Pod) {
	taken := map[string]bool{}
	for _, pod := range earlier {
		taken[pod.Name] = true
	}
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool { return taken[pod.Name] })
}
