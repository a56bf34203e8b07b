// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/utils/ptr"
)

// Objects are the objects of a cluster that admission reads.
type Objects struct {
	PriorityClasses []*schedulingv1.PriorityClass
	RuntimeClasses  []*nodev1.RuntimeClass
	// LimitRanges are the LimitRanges of all namespaces.
	LimitRanges []*corev1.LimitRange
}

// Admit returns a new pod as the API server would store it. The notes list the reasons for which the API server would refuse the pod, and
// the properties that are unknown because an object is missing. The given pod is not changed.
func (o *Objects) Admit(pod *corev1.Pod) (stored *corev1.Pod, notes []string) {
	stored = pod.DeepCopy()
	defaultContainers(stored)
	note := func(text string) {
		if text != "" {
			notes = append(notes, text)
		}
	}
	limits := o.limitRanges(stored.Namespace)
	for _, l := range limits {
		setLimits(l, stored)
	}
	note(o.Rank(stored))
	tolerateNodes(stored)
	note(o.setRuntime(stored))
	defaultPodResources(stored)
	for _, why := range aboveLimits(stored) {
		note(refused + why)
	}
	for _, l := range limits {
		for _, why := range breaches(l, stored) {
			note(refused + "LimitRange " + l.Name + ": " + why)
		}
	}
	return stored, notes
}

// RefusedBy returns the names of the LimitRanges that refuse a new pod.
func (o *Objects) RefusedBy(pod *corev1.Pod) (limits []string) {
	stored, _ := o.Admit(pod)
	for _, l := range o.limitRanges(stored.Namespace) {
		if len(breaches(l, stored)) > 0 {
			limits = append(limits, l.Name)
		}
	}
	return limits
}

// refused is the prefix of notes about refused pods.
const refused = "its pods would be refused: "

// builtInClasses are the priority classes that every cluster has.
var builtInClasses = map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

// Rank sets the priority of a pod that did not pass admission, or returns the reason why the priority is unknown.
func (o *Objects) Rank(pod *corev1.Pod) (unknown string) {
	if pod.Spec.Priority != nil {
		return ""
	}
	name := pod.Spec.PriorityClassName
	i := slices.IndexFunc(o.PriorityClasses, func(c *schedulingv1.PriorityClass) bool {
		return c.Name == name || name == "" && c.GlobalDefault
	})
	value, builtIn := builtInClasses[name]
	switch {
	case i >= 0:
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To(o.PriorityClasses[i].Value), o.PriorityClasses[i].PreemptionPolicy
	case builtIn:
		pod.Spec.Priority = ptr.To(value)
	case name != "":
		return fmt.Sprintf("PriorityClass %q is not among the objects: planned without priority, so that nothing frees capacity", name)
	}
	return ""
}

// tolerateNodes adds the tolerations with which a pod remains for a while on a node that is no longer ready.
func tolerateNodes(pod *corev1.Pod) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To[int64](tolerationSeconds),
			})
		}
	}
}

// tolerationSeconds is the API server's default duration of the tolerations for nodes that are not ready or unreachable.
const tolerationSeconds = 300
