// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Defaults sets the API server's defaults that affect how much capacity of a node a new pod uses: requests default to limits, and with
// hostNetwork every port is a host port.
func Defaults(pod *corev1.Pod) {
	defaultContainers(pod)
	defaultPodResources(pod)
}

func defaultContainers(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Resources.Requests = withDefaults(c.Resources.Requests, c.Resources.Limits)
			for j := range c.Ports {
				if p := &c.Ports[j]; pod.Spec.HostNetwork && p.HostPort == 0 {
					p.HostPort = p.ContainerPort
				}
			}
		}
	}
}

// defaultPodResources completes the pod-level resources of a pod that has pod-level resources. Limits of huge pages default to the limits
// of the pod's containers. Requests of cpu and memory default to the requests of the containers. Requests that are still missing default to
// the pod's limits.
func defaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, amount := range resource.AggregateContainerLimits(pod, resource.PodResourcesOptions{}) {
		if _, asked := r.Requests[name]; !asked && hugePages(name) && resource.IsSupportedPodLevelResource(name) {
			r.Limits = withDefaults(r.Limits, corev1.ResourceList{name: amount})
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	for name, amount := range resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{}) {
		if !hugePages(name) && resource.IsSupportedPodLevelResource(name) {
			r.Requests = withDefaults(r.Requests, corev1.ResourceList{name: amount})
		}
	}
	for name, amount := range r.Limits {
		if resource.IsSupportedPodLevelResource(name) {
			r.Requests = withDefaults(r.Requests, corev1.ResourceList{name: amount})
		}
	}
}

func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// withDefaults adds default amounts for the resources that a list does not name.
func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	for name, amount := range defaults {
		if _, set := list[name]; set {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = amount.DeepCopy()
	}
	return list
}
