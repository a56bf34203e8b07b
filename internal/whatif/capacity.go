// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Cluster returns the planner's view of the cluster: the nodes of its world with bound pods, reservations, and earlier plans. Callers must
// not change it.
func (p *Planner) Cluster() *topology.Cluster { return p.cluster }

// Asking returns the pod shapes to use with [topology.Cluster.CapacityOf]: the shapes of pods that request the resource. It considers the
// given pods and the pods that would be created for the groups. With resource "", all of these pods qualify. Pods with the same tolerations
// share one shape. If no pod qualifies, Asking returns the shape of a pod that tolerates the taint with the resource's name, because the
// admission plugin ExtendedResourceToleration adds this toleration to pods that request the resource.
func (p *Planner) Asking(resource string, groups []*trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) []*topology.Shape {
	pods = slices.Clone(pods)
	for _, sg := range groups {
		for i := range sg.Spec.Roles {
			pod := &corev1.Pod{Spec: sg.Spec.Roles[i].Template.Spec}
			pod.Namespace = sg.Namespace
			pods = append(pods, p.admitted(pod))
		}
	}
	var asking []*corev1.Pod
	for _, pod := range pods {
		alike := func(other *corev1.Pod) bool {
			return equality.Semantic.DeepEqual(pod.Spec.Tolerations, other.Spec.Tolerations)
		}
		if (resource == "" || topology.Requested(pod, resource) > 0) && !slices.ContainsFunc(asking, alike) {
			asking = append(asking, pod)
		}
	}
	if len(asking) == 0 {
		pod := &corev1.Pod{}
		if resource != "" {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: resource, Operator: corev1.TolerationOpExists}}
		}
		asking = append(asking, pod)
	}
	shapes := make([]*topology.Shape, 0, len(asking))
	for _, pod := range asking {
		shapes = append(shapes, topology.ShapeOf(pod))
	}
	return shapes
}
