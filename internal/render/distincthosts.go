// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// AnnotationDistinctHosts with the value "true", on a deployment or on the pods of a component, places the pods of each multinode replica
// on different hosts (docs/placement.md#hosts-of-their-own). The component's annotation overrides the deployment's annotation.
const AnnotationDistinctHosts = "trellis.dev/distinct-hosts"

// DistinctHosts reports whether the pods of each multinode replica of a scaling group need different hosts.
func DistinctHosts(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Spec.Multinode && slices.ContainsFunc(sg.Spec.Roles, func(role trellisv1alpha1.Role) bool {
		return role.Template.Annotations[AnnotationDistinctHosts] == "true"
	})
}
