// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// Where the status is left out of the count, it would not have changed it.
func TestStatusCountsWhereItHasResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := resizedPod(t)
		if diff := cmp.Diff(requestsBy(p, counting), RequestsOf(p)); diff != "" {
			t.Errorf("requests of %v with status %v (-with the status +counted):\n%s", p.Spec, p.Status, diff)
		}
	})
}

// resizedPod draws a pod with containers of every kind, any part of whose status may say something of resources.
func resizedPod(t *rapid.T) *corev1.Pod {
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	cpu := func(name string) corev1.ResourceList {
		return amounts{"cpu": strconv.Itoa(rapid.IntRange(0, 4).Draw(t, name))}.list()
	}
	actuated := func(name string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: cpu(name)}
	}
	status := func(name string) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: name}
		if some("allocated") {
			s.AllocatedResources = cpu("allocated")
		}
		if some("actuated") {
			s.Resources = actuated("actuated")
		}
		return s
	}
	p := &corev1.Pod{}
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		c := corev1.Container{Name: "c" + strconv.Itoa(i), Resources: *actuated("requested")}
		p.Spec.Containers = append(p.Spec.Containers, c)
		if some("status") {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status(c.Name))
		}
	}
	always := corev1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		c := corev1.Container{Name: "i" + strconv.Itoa(i), Resources: *actuated("requested")}
		if some("sidecar") {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		if some("status") {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, status(c.Name))
		}
	}
	if some("of the pod") {
		p.Spec.Resources = actuated("of the pod")
	}
	if some("allocated to the pod") {
		p.Status.AllocatedResources = cpu("allocated to the pod")
	}
	if some("actuated for the pod") {
		p.Status.Resources = actuated("actuated for the pod")
	}
	if some("pending") {
		reason := rapid.SampledFrom([]string{corev1.PodReasonInfeasible, corev1.PodReasonDeferred}).Draw(t, "reason")
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
	}
	return p
}
