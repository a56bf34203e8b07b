// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/render"
)

// groupNamedBy returns the name of a pod's scaling group. It is the group that owns the pod, directly or through a LeaderWorkerSet. For a
// pod without a controller, it is the group in the pod's labels, which may adopt the pod.
func groupNamedBy(pod *corev1.Pod) (name string, ok bool) {
	if name, _, ok = render.GroupOf(pod); ok {
		return name, true
	}
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return "", false
	}
	name = pod.Labels[render.LabelScalingGroup]
	return name, name != ""
}

// isOrphan reports whether a pod has no controller and has the labels and the name of a pod of the group. A pod with these labels and
// another name is a user's copy, which the group does not adopt.
func isOrphan(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) bool {
	ordinal, index, ok := render.ReplicaOf(pod)
	return ok && metav1.GetControllerOfNoCopy(pod) == nil && !render.InSets(sg) && pod.Name == render.PodName(sg, ordinal, index) &&
		pod.Labels[render.LabelScalingGroup] == sg.Name && pod.Labels[render.LabelGraph] == render.LabelValue(sg.Spec.Graph)
}

// adopt makes the group the owner of pods that an earlier group of the same name left behind, including running pods. done reports whether
// there were pods to adopt. The events of the adopted pods trigger the next reconcile.
func (r *Reconciler) adopt(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, orphans []*corev1.Pod) (done bool, err error) {
	if len(orphans) == 0 {
		return false, nil
	}
	adopter := adoption.Adopter{Client: r.Client, Live: r.Live, Owner: sg, Kind: trellisv1alpha1.GroupVersion.WithKind("ScalingGroup")}
	if current, err := adopter.Current(ctx); err != nil || !current {
		return true, err
	}
	todo := make([]func() error, 0, len(orphans))
	for _, pod := range orphans {
		todo = append(todo, func() error {
			log.FromContext(ctx).Info("adopting a pod", "pod", pod.Name)
			return adopter.Adopt(ctx, pod)
		})
	}
	return true, inParallel(todo)
}
