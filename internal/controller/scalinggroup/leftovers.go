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

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/render"
)

// found has the pods that name a group: its own pods; pods of earlier groups of the same name, which still occupy pod names; and orphans,
// which the group adopts.
type found struct{ own, earlier, orphans []*corev1.Pod }

// podsOf lists the pods that name a group. The caller must not change the pods, because the cache shares them. If sg has no UID, the group
// does not exist, and all pods with an owner are of earlier groups.
func (r *Reconciler) podsOf(ctx context.Context, name types.NamespacedName, sg *trellisv1alpha1.ScalingGroup) (found, error) {
	var out found
	pods := &corev1.PodList{}
	err := r.Client.List(ctx, pods, client.InNamespace(name.Namespace), client.MatchingFields{indexPodsByGroup: name.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return out, fmt.Errorf("listing the pods of the group: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, of, owned := render.GroupOf(pod)
		switch {
		case owned && of == sg.UID:
			out.own = append(out.own, pod)
		case isLeftover(pod, name.Name, sg.UID), isOrphan(pod, sg) && pod.DeletionTimestamp != nil:
			out.earlier = append(out.earlier, pod)
		case isOrphan(pod, sg):
			out.orphans = append(out.orphans, pod)
		}
	}
	return out, nil
}

// isLeftover reports whether a pod belongs to an earlier group of this name. Pods of a LeaderWorkerSet are no leftovers, because the
// LeaderWorkerSet would recreate them after a deletion.
func isLeftover(pod *corev1.Pod, group string, uid types.UID) bool {
	return leftovers.Of(pod, "ScalingGroup", group, uid)
}

// deleteLeftovers deletes the pods of earlier groups of this name. Their deletion events trigger the next reconcile.
func (r *Reconciler) deleteLeftovers(ctx context.Context, group types.NamespacedName, uid types.UID, pods []*corev1.Pod) error {
	owner := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: group.Name, UID: uid}}
	return leftovers.DeleteAll(ctx, r.Client, r.Live, owner, pods)
}

// waitFor removes from the creates the pods whose names are still taken by the given pods.
func (s *steps) waitFor(others ...[]*corev1.Pod) {
	taken := map[string]bool{}
	for _, pod := range slices.Concat(others...) {
		taken[pod.Name] = true
	}
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool { return taken[pod.Name] })
}
