// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// InQueue reports whether a pod is in a queue, regardless of the client that put it there.
func InQueue(pod *corev1.Pod) bool { return pod.Labels[labelQueue] != "" }

// DefaultQueue returns the namespace's default queue if Kueue has put pods of the deployment into it although neither the deployment nor
// its components name a queue; otherwise "". Kueue would reserve quota for each of these pods separately, so that only part of a gang might
// get quota and keep it. Trellis recognizes the default queue only by such pods, because it does not know the namespaces and kinds for
// which Kueue is configured. DefaultQueue ignores running pods, because otherwise a deployment could not leave the queue while its pods
// run.
func DefaultQueue(groups []*trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) string {
	for _, sg := range groups {
		if madeBy(sg) != "" {
			return "" // Trellis could not hold their pods for quota
		}
	}
	for _, sg := range groups {
		put := func(pod *corev1.Pod) bool {
			return render.Member(pod, sg) && InQueue(pod) && WorkloadOf(pod) == "" && pod.Labels[labelManaged] == "true" &&
				pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) > 0 && !namesQueue(sg)
		}
		if at := slices.IndexFunc(pods, put); at >= 0 {
			return pods[at].Labels[labelQueue]
		}
	}
	return ""
}

// namesQueue reports whether the pod template of a component names a queue. The user then wants a separate quota for each pod of the
// component.
func namesQueue(sg *trellisv1alpha1.ScalingGroup) bool {
	return slices.ContainsFunc(sg.Spec.Roles, func(r trellisv1alpha1.Role) bool { return r.Template.Labels[labelQueue] != "" })
}
