// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/graph"
)

// StripPod is a cache transform: of our own pods it drops only the managed fields; of others it keeps what takes capacity on a node.
// Two hundred thousand whole pods would not fit in memory.
func StripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if pod.Labels[graph.LabelScalingGroup] != "" {
		pod.ManagedFields = nil
		return pod, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
			CreationTimestamp: pod.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
			Containers: stripContainers(pod.Spec.Containers), InitContainers: stripContainers(pod.Spec.InitContainers),
			HostNetwork: pod.Spec.HostNetwork, Priority: pod.Spec.Priority, SchedulerName: otherScheduler(pod),
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}, nil
}

// otherScheduler is the pod's scheduler; "", which means the same and takes no memory, for the default one.
func otherScheduler(pod *corev1.Pod) string {
	if pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		return ""
	}
	return pod.Spec.SchedulerName
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		stripped := corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				stripped.Ports = append(stripped.Ports, port)
			}
		}
		out = append(out, stripped)
	}
	return out
}

// StripNode is a cache transform: images alone are most of a node object's size.
func StripNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Annotations = nil
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	node.Status.NodeInfo, node.Status.Addresses = corev1.NodeSystemInfo{}, nil
	return node, nil
}
