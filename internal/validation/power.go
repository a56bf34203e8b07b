// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// annotationPowerLimit on the pods of a component limits the power of each GPU, in watts. Dynamo's planner multiplies the limit by the
// number of GPUs of a replica and stores the product, so the limit and the number of GPUs are immutable. The planner cannot count devices
// from resource claims, so claims are refused.
const annotationPowerLimit = "dynamo.nvidia.com/gpu-power-limit"

const immutableBesidePower = "is immutable while the pods have the annotation " + annotationPowerLimit +
	": the planner counts power by it; delete and recreate the DynamoGraphDeployment"

func powerPath(s component) *field.Path {
	return s.path.Child("podTemplate", "metadata", "annotations").Key(annotationPowerLimit)
}

func powerLimit(s component) field.ErrorList {
	value, set := s.template().Annotations[annotationPowerLimit]
	if !set {
		return nil
	}
	var errs field.ErrorList
	if watts, err := strconv.Atoi(value); err != nil || watts <= 0 {
		errs = append(errs, badValue(field.ErrorTypeInvalid, powerPath(s), value, "must be a whole number of watts, 1 or more"))
	}
	const text = "cannot be combined with the annotation " + annotationPowerLimit +
		": the planner does not count the power of claimed devices; remove one of the two"
	if e := s.Experimental; e != nil && e.GPUMemoryService != nil {
		errs = append(errs, field.Forbidden(s.path.Child("experimental", "gpuMemoryService"), text))
	}
	claims := func(list string, containers []corev1.Container) {
		for i := range containers {
			c := &containers[i]
			if len(c.Resources.Claims) == 0 {
				continue
			}
			errs = append(errs, field.Forbidden(s.podPath(list).Key(short(c.Name)).Child("resources", "claims"), text))
		}
	}
	claims("containers", s.template().Spec.Containers)
	claims("initContainers", s.template().Spec.InitContainers)
	return errs
}

// powerImmutable refuses changes of the power limit. If a component has a power limit, it also refuses changes of the number of GPUs per
// replica.
func powerImmutable(updated, old *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	forComponentsInBoth(updated, old, func(now, before component) {
		limit, set := now.template().Annotations[annotationPowerLimit]
		limitBefore, was := before.template().Annotations[annotationPowerLimit]
		if set != was || limit != limitBefore {
			errs = append(errs, field.Forbidden(powerPath(now),
				"is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment"))
		}
		if !was {
			return
		}
		if now.mainGPUs() != before.mainGPUs() {
			errs = append(errs, field.Forbidden(now.mainPath("resources", "limits").Key(defaultGPU), immutableBesidePower))
		}
		if now.nodes() != before.nodes() {
			errs = append(errs, field.Forbidden(now.path.Child("multinode", "nodeCount"), immutableBesidePower))
		}
	})
	return errs
}

// mainGPUs returns the number of GPUs of the main container as text, from its limit or otherwise from its request; "" for none.
func (s component) mainGPUs() string {
	c := s.mainContainer()
	if c == nil {
		return ""
	}
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		if quantity, set := list[defaultGPU]; set {
			return quantity.String()
		}
	}
	return ""
}
