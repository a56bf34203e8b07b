// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Unsuited returns the reason why the provider cannot place the scaling groups, and the fix; "" if it can place them. The kube-scheduler
// binds a tree only if all its pods have the same scheduler, priority and preemption policy. A pod can have only one scheduling group, so a
// pod template must not name another scheduling group.
func Unsuited(groups []*trellisv1alpha1.ScalingGroup) string {
	var first *trellisv1alpha1.ScalingGroup
	for _, sg := range groups {
		if !render.Gated(sg) {
			continue
		}
		if why := ownGroup(sg); why != "" {
			return why
		}
		if graphKey(groups) == "" {
			continue // no tree
		}
		if first == nil {
			first = sg
			continue
		}
		for _, field := range treeFields {
			if a, b := field.of(podSpec(first)), field.of(podSpec(sg)); a != b {
				return fmt.Sprintf("its pods are one tree of pod groups, which must have one %s: component %s has %q, component %s has %q; make "+
					"them equal, or use the provider Gates",
					field.name, first.Spec.Component, a, sg.Spec.Component, b)
			}
		}
	}
	return ""
}

var treeFields = []struct {
	name string
	of   func(*corev1.PodSpec) string
}{
	{"priorityClassName", func(s *corev1.PodSpec) string { return s.PriorityClassName }},
	{"schedulerName", func(s *corev1.PodSpec) string { return cmp.Or(s.SchedulerName, corev1.DefaultSchedulerName) }},
	{"preemptionPolicy", func(s *corev1.PodSpec) string {
		if s.PreemptionPolicy == nil {
			return string(corev1.PreemptLowerPriority)
		}
		return string(*s.PreemptionPolicy)
	}},
}

func ownGroup(sg *trellisv1alpha1.ScalingGroup) string {
	for i := range sg.Spec.Roles {
		spec := &sg.Spec.Roles[i].Template.Spec
		switch {
		case spec.SchedulingGroup != nil:
			return fmt.Sprintf("component %s names a schedulingGroup of its own; remove it from podTemplate.spec, or use the provider Gates",
				sg.Spec.Component)
		case len(spec.EvictionResponders) > 0:
			return fmt.Sprintf("component %s has evictionResponders, which pods of a group may not have; remove them from podTemplate.spec, or "+
				"use the provider Gates", sg.Spec.Component)
		}
	}
	return ""
}
