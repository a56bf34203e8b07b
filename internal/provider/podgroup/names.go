// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// largest is the size that the first of all groups would have.
const largest = 9999

// groupName names the group of one generation of a replica. The scheduler takes the groups of a tree in the order in which they were
// created, and those of one second by name: the number lets the largest come first.
func groupName(sg *trellisv1alpha1.ScalingGroup, ordinal int32, generation string) string {
	component := strings.ReplaceAll(strings.ToLower(sg.Spec.Service), ".", "-")
	return fmt.Sprintf("%s-%04d-%s-%d-%s", render.LabelValue(sg.Spec.Graph), largest-size(sg), render.LabelValue(component), ordinal,
		generation)
}

// GroupOf is the name a pod cites, or "".
func GroupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// size of one replica: its devices, a pod without any counting as one.
func size(sg *trellisv1alpha1.ScalingGroup) int64 {
	var total int64
	for i := range sg.Spec.Roles {
		role := &sg.Spec.Roles[i]
		var devices int64
		for name, quantity := range resourcehelper.PodRequests(&corev1.Pod{Spec: role.Template.Spec}, resourcehelper.PodResourcesOptions{}) {
			if extended(name) {
				devices += quantity.Value()
			}
		}
		total += int64(role.Count) * min(max(1, devices), largest)
	}
	return min(total, largest)
}

func extended(name corev1.ResourceName) bool {
	prefix, _, found := strings.Cut(string(name), "/")
	return found && prefix != "kubernetes.io"
}
