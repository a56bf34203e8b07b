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

// largest is the maximum that the function size returns for a replica. A PodGroup name contains largest - size.
const largest = 9999

// groupName returns the PodGroup name for one generation of a replica. The scheduler orders the PodGroups of a tree by creation time and,
// within one second, by name. The number in the name sorts the largest PodGroup first.
func groupName(sg *trellisv1alpha1.ScalingGroup, ordinal int32, generation string) string {
	component := strings.ReplaceAll(strings.ToLower(sg.Spec.Component), ".", "-")
	return fmt.Sprintf("%s-%04d-%s-%d-%s", render.LabelValue(sg.Spec.Graph), largest-size(sg), render.LabelValue(component), ordinal,
		generation)
}

// GroupOf returns the name of a pod's PodGroup; "" for none.
func GroupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// SameReplica reports whether two PodGroup names belong to the same replica, of the same or of different generations.
func SameReplica(a, b string) bool {
	return a == b || replicaIn(a) != "" && replicaIn(a) == replicaIn(b)
}

// replicaIn returns the part of a PodGroup name that all generations of a replica share.
func replicaIn(name string) string { return name[:max(strings.LastIndex(name, "-"), 0)] }

// size returns the number of devices of one replica. A pod without devices counts as one device.
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
