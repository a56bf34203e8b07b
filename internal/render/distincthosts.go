// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// AnnotationDistinctHosts with the value "true", on a deployment or on the pods of a component, keeps the pods of each multinode replica
// on hosts of their own (docs/placement.md#hosts-of-their-own). That of the component goes before that of the deployment.
const AnnotationDistinctHosts = "trellis.dev/distinct-hosts"

// DistinctHosts reports whether the pods of each replica of a group go to hosts of their own. Replicas of one pod do in any case.
func DistinctHosts(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Spec.Multinode && slices.ContainsFunc(sg.Spec.Roles, func(role trellisv1alpha1.Role) bool {
		return role.Template.Annotations[AnnotationDistinctHosts] == "true"
	})
}
