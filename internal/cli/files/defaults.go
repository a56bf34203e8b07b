// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// schemaDefaults are the defaults in the schema of a DynamoGraphDeployment by path, "*" for every service. A test holds them against the
// definition. A default below an object that is absent does not apply.
var schemaDefaults = []struct {
	path  string
	value any
}{
	{"spec.restart.strategy.type", "Sequential"},
	{"spec.services.*", map[string]any{}},
	{"spec.services.*.replicas", int64(1)},
	{"spec.services.*.multinode.nodeCount", int64(2)},
	{"spec.services.*.failover.mode", "intraPod"},
	{"spec.services.*.failover.numShadows", int64(1)},
	{"spec.services.*.gpuMemoryService.mode", "intraPod"},
	{"spec.services.*.gpuMemoryService.deviceClassName", "gpu.nvidia.com"},
}

// defaultGraph decodes a deployment again, with the defaults of its schema.
func defaultGraph(raw []byte, into *nvidiav1beta1.DynamoGraphDeployment) error {
	var whole map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &whole); err != nil {
		return err
	}
	setDefaults(whole)
	defaulted, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	*into = nvidiav1beta1.DynamoGraphDeployment{}
	return kjson.UnmarshalCaseSensitivePreserveInts(defaulted, into)
}

// setDefaults fills in what the API server would, into the object as the user wrote it: an explicit zero stays one.
func setDefaults(object map[string]any) {
	for _, d := range schemaDefaults {
		setDefault(object, strings.Split(d.path, "."), d.value)
	}
}

func setDefault(object map[string]any, path []string, value any) {
	keys := []string{path[0]}
	if path[0] == "*" {
		keys = sortedKeys(object)
	}
	for _, key := range keys {
		if len(path) > 1 {
			if child, ok := object[key].(map[string]any); ok {
				setDefault(child, path[1:], value)
			}
			continue
		}
		if object[key] != nil {
			continue
		}
		if _, isObject := value.(map[string]any); isObject {
			object[key] = map[string]any{}
		} else {
			object[key] = value
		}
	}
}

// defaultNode is what the API server does to a new node: all of it may be allocated unless it says otherwise.
func defaultNode(node *corev1.Node) {
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity
	}
}

// defaultPod is what the API server does to a new pod, as far as it decides what room the pod takes: limits are requests, and on the host's
// network every port is a host port.
func defaultPod(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i], pod.Spec.HostNetwork)
		}
	}
}

func defaultContainer(c *corev1.Container, hostNetwork bool) {
	for name, limit := range c.Resources.Limits {
		if _, set := c.Resources.Requests[name]; set {
			continue
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		c.Resources.Requests[name] = limit
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; hostNetwork && p.HostPort == 0 {
			p.HostPort = p.ContainerPort
		}
	}
}
