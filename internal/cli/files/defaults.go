// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	kjson "sigs.k8s.io/json"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// schemaDefaults are the defaults in the schemas of a DynamoGraphDeployment, by path. In a path, "*" stands for every service or component.
// A default below a missing object does not apply. A test compares these defaults with the CustomResourceDefinition.
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
	{"spec.components.*.replicas", int64(1)},
	{"spec.components.*.multinode.nodeCount", int64(2)},
	{"spec.components.*.experimental.failover.mode", "IntraPod"},
	{"spec.components.*.experimental.failover.numShadows", int64(1)},
	{"spec.components.*.experimental.gpuMemoryService.mode", "IntraPod"},
	{"spec.components.*.experimental.gpuMemoryService.deviceClassName", "gpu.nvidia.com"},
}

// defaultGraph decodes a deployment of either version with the defaults of its schema, and converts it to v1beta1.
func defaultGraph(raw []byte) (*nvidiav1beta1.DynamoGraphDeployment, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	var whole map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &whole); err != nil {
		return dgd, err
	}
	setDefaults(whole)
	defaulted, err := json.Marshal(whole)
	if err != nil {
		return dgd, err
	}
	if defaulted, err = nvidiav1alpha1.ConvertJSON(defaulted, nvidiav1beta1.GroupVersion.Version); err != nil {
		return dgd, err
	}
	return dgd, kjson.UnmarshalCaseSensitivePreserveInts(defaulted, dgd)
}

// setDefaults sets the API server's defaults in the object before it is decoded into a Go type, so that an explicit zero is kept.
func setDefaults(object map[string]any) {
	for _, d := range schemaDefaults {
		setDefault(object, strings.Split(d.path, "."), d.value)
	}
}

func setDefault(in any, path []string, value any) {
	if list, isList := in.([]any); isList && path[0] == "*" && len(path) > 1 {
		for _, item := range list {
			setDefault(item, path[1:], value)
		}
	}
	object, isObject := in.(map[string]any)
	if !isObject {
		return
	}
	keys := []string{path[0]}
	if path[0] == "*" {
		keys = slices.Sorted(maps.Keys(object))
	}
	for _, key := range keys {
		if len(path) > 1 {
			setDefault(object[key], path[1:], value)
			continue
		}
		if object[key] != nil {
			continue
		}
		if _, empty := value.(map[string]any); empty {
			object[key] = map[string]any{}
		} else {
			object[key] = value
		}
	}
}

// defaultNode sets allocatable to the capacity if allocatable is missing, as the API server does for a new node.
func defaultNode(node *corev1.Node) {
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity
	}
}

// defaultClaim sets the API server's defaults: a request is for an exact count of devices, by default one, and a toleration has the
// operator Equal.
func defaultClaim(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultRequest(&e.AllocationMode, &e.Count, e.Tolerations)
		}
		for k := range r.FirstAvailable {
			s := &r.FirstAvailable[k]
			defaultRequest(&s.AllocationMode, &s.Count, s.Tolerations)
		}
	}
}

func defaultRequest(mode *resourcev1.DeviceAllocationMode, count *int64, tolerations []resourcev1.DeviceToleration) {
	*mode = cmp.Or(*mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		*count = cmp.Or(*count, 1)
	}
	for i := range tolerations {
		tolerations[i].Operator = cmp.Or(tolerations[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}
