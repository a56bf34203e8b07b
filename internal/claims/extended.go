// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Resources that a DeviceClass serves. On a node that does not offer such a resource, the kube-scheduler creates a claim for the pod, with
// one request for each container that requests the resource. The functions below follow createRequestsAndMappings in the kube-scheduler's
// plugin DynamicResources.

// served is a requested resource that a class serves, and the device requests for it.
type served struct {
	resource string
	requests []resourcev1.DeviceRequest
}

// servedOf lists the resources of a pod that classes serve. names are the resources that the cluster treats as served.
func (s *Store) servedOf(pod *corev1.Pod, names []string) (list []served) {
	for _, name := range names {
		if class := s.classOf(name); class != nil {
			if requests := requestsOf(pod, corev1.ResourceName(name), class.Name); len(requests) > 0 {
				list = append(list, served{name, requests})
			}
		}
	}
	return list
}

// requestsOf returns the device requests of a pod's containers for a resource. Containers reuse the devices of init containers that have
// ended.
func requestsOf(pod *corev1.Pod, resource corev1.ResourceName, class string) (list []resourcev1.DeviceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	staying := make([]*resourcev1.DeviceRequest, len(containers))
	for i := range containers {
		if !ends(containers, i, len(pod.Spec.InitContainers)) {
			staying[i] = requestOf(i, &containers[i], resource, class, nil)
		}
	}
	var most *resourcev1.DeviceRequest
	for i := range containers {
		if !ends(containers, i, len(pod.Spec.InitContainers)) {
			continue
		}
		if r := requestOf(i, &containers[i], resource, class, staying[i:]); r != nil && (most == nil || most.Exactly.Count < r.Exactly.Count) {
			most = r
		}
	}
	for _, r := range append(staying, most) {
		if r != nil {
			list = append(list, *r)
		}
	}
	return list
}

// ends reports whether the i-th container ends before the pod's main containers run.
func ends(containers []corev1.Container, i, initial int) bool {
	policy := containers[i].RestartPolicy
	return i < initial && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
}

// requestOf returns a container's request for the devices that it needs in addition to reusable devices; nil for none.
func requestOf(i int, c *corev1.Container, resource corev1.ResourceName, class string,
	reusable []*resourcev1.DeviceRequest) *resourcev1.DeviceRequest {
	quantity, asked := c.Resources.Requests[resource]
	count, exact := quantity.AsInt64()
	if !asked || !exact || count == 0 {
		return nil
	}
	for _, r := range reusable {
		if r != nil {
			count -= r.Exactly.Count
		}
	}
	if count <= 0 {
		return nil
	}
	at := slices.Index(slices.Sorted(maps.Keys(c.Resources.Requests)), resource)
	return &resourcev1.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", i, at),
		Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		},
	}
}

// made returns the claim that the kube-scheduler creates for the resources that a node does not offer.
func (c *class) made(lacks uint64) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = c.namespace, "extended-resources", "extended-resources"
	for i := range c.served {
		if lacks&(1<<i) != 0 {
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, c.served[i].requests...)
		}
	}
	slices.SortFunc(claim.Spec.Devices.Requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return claim
}
