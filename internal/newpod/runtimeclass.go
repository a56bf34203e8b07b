// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// setRuntime sets the overhead, node selector and tolerations of the pod's RuntimeClass, and returns a note about problems.
func (o *Objects) setRuntime(pod *corev1.Pod) (note string) {
	if pod.Spec.RuntimeClassName == nil {
		if len(pod.Spec.Overhead) > 0 {
			return refused + "they have an overhead and no RuntimeClass"
		}
		return ""
	}
	name := *pod.Spec.RuntimeClassName
	i := slices.IndexFunc(o.RuntimeClasses, func(c *nodev1.RuntimeClass) bool { return c.Name == name })
	if i < 0 {
		return fmt.Sprintf("RuntimeClass %q is not among the objects: planned without its overhead, node selector and tolerations", name)
	}
	class := o.RuntimeClasses[i]
	var overhead corev1.ResourceList
	if class.Overhead != nil {
		overhead = class.Overhead.PodFixed
	}
	if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(pod.Spec.Overhead, overhead) {
		return fmt.Sprintf("%stheir overhead is not that of RuntimeClass %q", refused, name)
	}
	pod.Spec.Overhead = maps.Clone(overhead)
	if class.Scheduling == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		value := class.Scheduling.NodeSelector[key]
		if own, set := pod.Spec.NodeSelector[key]; set && own != value {
			return fmt.Sprintf("%stheir node selector has %s=%s, and that of RuntimeClass %q has %s", refused, key, own, name, value)
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = value
	}
	pod.Spec.Tolerations = mergeTolerations(slices.Concat(pod.Spec.Tolerations, class.Scheduling.Tolerations))
	return ""
}

// mergeTolerations removes tolerations that other tolerations cover. Of several equal tolerations, the first stays.
func mergeTolerations(all []corev1.Toleration) (merged []corev1.Toleration) {
	for i := range all {
		t := &all[i]
		needless := slices.ContainsFunc(merged, func(other corev1.Toleration) bool { return covers(&other, t) }) ||
			slices.ContainsFunc(all[i+1:], func(other corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(&other, t) && covers(&other, t)
			})
		if !needless {
			merged = append(merged, *t)
		}
	}
	return merged
}

// covers reports, by the rules of the API server, whether a toleration tolerates everything that another toleration tolerates.
func covers(wide, t *corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(wide, t) {
		return true
	}
	anyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if t.Key != wide.Key && !anyKey || t.Effect != wide.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil && (t.TolerationSeconds == nil ||
		*t.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	if wide.Operator == corev1.TolerationOpExists {
		return true
	}
	return (wide.Operator == corev1.TolerationOpEqual || wide.Operator == "") && t.Operator == corev1.TolerationOpEqual &&
		t.Value == wide.Value
}
