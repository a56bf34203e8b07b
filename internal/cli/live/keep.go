// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

func whole[T any](o *T) (*T, error) { return o, nil }

// volume strips a PersistentVolumeClaim or a PersistentVolume as the operator's cache does.
func volume[T any](o *T) (*T, error) {
	_, err := scheduler.StripVolume(o)
	return o, err
}

// claim strips a ResourceClaim, or an object that describes devices, as the operator's cache does.
func claim[T any](o *T) (*T, error) {
	_, err := scheduler.StripClaim(o)
	return o, err
}

func node(n *corev1.Node) (*corev1.Node, error) {
	stripped, err := scheduler.StripNode(n)
	if err != nil {
		return nil, err
	}
	return stripped.(*corev1.Node), nil
}

// pod strips a pod as the operator's cache does. It returns nil for a finished pod of no scaling group, because such a pod uses no
// capacity.
func pod(p *corev1.Pod) (*corev1.Pod, error) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if ended && p.Labels[render.LabelScalingGroup] == "" {
		return nil, nil
	}
	controller := metav1.GetControllerOf(p)
	object, err := scheduler.StripPod(p)
	if err != nil {
		return nil, err
	}
	stripped := object.(*corev1.Pod)
	if len(stripped.OwnerReferences) == 0 && controller != nil { // its controller determines how it can be removed
		stripped.OwnerReferences = []metav1.OwnerReference{{Kind: controller.Kind, Name: controller.Name, Controller: controller.Controller}}
	}
	return stripped, nil
}
