// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// SortedGroups returns the groups by component, so that what is rendered never depends on the order of a list.
func SortedGroups(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
	return slices.SortedFunc(slices.Values(groups), func(a, b *trellisv1alpha1.ScalingGroup) int {
		return cmp.Compare(a.Spec.Service, b.Spec.Service)
	})
}

// PriorityClass is the priority class of all pods of the graph, or "" when they have none or do not agree.
func PriorityClass(groups []*trellisv1alpha1.ScalingGroup) string {
	class := ""
	for i, sg := range groups {
		for j := range sg.Spec.Roles {
			name := sg.Spec.Roles[j].Template.Spec.PriorityClassName
			if i+j > 0 && name != class {
				return ""
			}
			class = name
		}
	}
	return class
}
