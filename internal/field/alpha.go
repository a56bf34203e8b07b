// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import "slices"

const v1alpha1 = "v1alpha1"

var (
	mainPath = NewPath("podTemplate", "spec", "containers").Key("main")
	gpu      = "nvidia.com/gpu"
)

// componentFields and specFields list the fields whose paths differ in v1alpha1: fields of a component, and fields of the spec. A path
// precedes its prefixes, because the first match applies.
var (
	componentFields = table{
		{mainPath.Child("resources", "limits").Key(gpu), NewPath("resources", "limits", "gpu")},
		{mainPath.Child("resources", "requests").Key(gpu), NewPath("resources", "requests", "gpu")},
		{mainPath.Child("resources"), NewPath("resources")},
		{mainPath, NewPath("extraPodSpec", "mainContainer")},
		{NewPath("podTemplate", "spec"), NewPath("extraPodSpec")},
		{NewPath("podTemplate", "metadata", "annotations"), NewPath("annotations")},
		{NewPath("podTemplate", "metadata", "labels"), NewPath("labels")},
		{NewPath("podTemplate", "metadata"), NewPath("extraPodMetadata")},
		{NewPath("experimental", "checkpoint"), NewPath("checkpoint")},
		{NewPath("experimental", "gpuMemoryService"), NewPath("gpuMemoryService")},
		{NewPath("experimental", "failover"), NewPath("failover")},
		{NewPath("sharedMemorySize"), NewPath("sharedMemory", "size")},
		{NewPath("scalingAdapter"), NewPath("scalingAdapter", "enabled")},
		{NewPath("type"), NewPath("componentType")},
	}
	specFields = table{
		{NewPath("topologyConstraint", "clusterTopologyName"), NewPath("topologyConstraint", "topologyProfile")},
		{NewPath("components"), NewPath("services")},
		{NewPath("env"), NewPath("envs")},
	}
)

// table pairs v1beta1 paths with v1alpha1 paths.
type table []struct{ beta, alpha *Path }

// inAlpha translates a v1beta1 path to v1alpha1: the path to the component or to the field of the spec, and the path inside the component.
// If translated is true, the path inside the component is in v1alpha1 already, and inAlpha does not change it.
func inAlpha(elements []element, translated bool) []element {
	components := Components.elements()
	switch {
	case len(elements) == 0 || elements[0] != components[0]:
		return elements
	case len(elements) < 3 || elements[2].kind != ofComponent:
		return slices.Concat(components[:1], specFields.translate(elements[1:]))
	case translated:
		return slices.Concat(components[:1], specFields.translate(components[1:]), elements[2:])
	}
	return slices.Concat(components[:1], specFields.translate(components[1:]), elements[2:3], componentFields.translate(elements[3:]))
}

func (t table) translate(path []element) []element {
	for _, pair := range t {
		beta := pair.beta.elements()
		if len(path) >= len(beta) && slices.Equal(path[:len(beta)], beta) {
			return append(pair.alpha.elements(), path[len(beta):]...)
		}
	}
	return path
}
