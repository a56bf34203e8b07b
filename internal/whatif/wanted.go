// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// wanted makes the pods of a group that do not exist and that the operator would make now, gates and all. A replica of which pods are let
// go or end already is first taken down whole, so none of its are made.
func (p *Planner) wanted(sg *trellisv1alpha1.ScalingGroup, existing []*corev1.Pod) []*corev1.Pod {
	if !graph.Gated(sg) || graph.Oversized(sg) {
		return nil
	}
	made, barred := map[string]bool{}, map[int]bool{}
	for _, pod := range existing {
		ordinal, _, ok := graph.ReplicaOf(pod)
		made[pod.Name] = true
		barred[int(ordinal)] = barred[int(ordinal)] || ok && (leaving(pod) || !graph.GateClosed(pod))
	}
	var out []*corev1.Pod
	build := graph.NewBuilder(sg)
	for _, ordinal := range gang.Ordinals(sg, existing) {
		for index := range graph.PodsPerReplica(sg) {
			if barred[ordinal] || made[graph.PodName(sg, int32(ordinal), index)] {
				continue
			}
			pod := build.Pod(int32(ordinal), index)
			own(pod, sg)
			out = append(out, p.ranked(pod))
		}
	}
	return out
}

// Priority classes that every cluster has.
var builtInClasses = map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

// ranked is the pod with the priority that admission would give it. One that admission has seen is left as it is.
func (p *Planner) ranked(pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.Priority != nil {
		return pod
	}
	class := p.class(pod.Spec.PriorityClassName)
	if class == nil {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To(class.Value), class.PreemptionPolicy
	return pod
}

// class of that name; for none, the one that is the cluster's default. Nil when it is not known.
func (p *Planner) class(name string) *schedulingv1.PriorityClass {
	i := slices.IndexFunc(p.world.Priorities, func(c *schedulingv1.PriorityClass) bool {
		return c.Name == name || name == "" && c.GlobalDefault
	})
	if i >= 0 {
		return p.world.Priorities[i]
	}
	if value, builtIn := builtInClasses[name]; builtIn {
		return &schedulingv1.PriorityClass{Value: value}
	}
	return nil
}

// unknownClasses are the priority classes that a deployment's pods name and that nobody has.
func (p *Planner) unknownClasses(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	r, err := p.request(dgd)
	if err != nil {
		return nil
	}
	var names []string
	for _, sg := range r.observation.Groups {
		for i := range sg.Spec.Roles {
			name := sg.Spec.Roles[i].Template.Spec.PriorityClassName
			if name != "" && p.class(name) == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
