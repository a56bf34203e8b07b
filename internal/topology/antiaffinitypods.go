// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AnyRepelling reports whether any pod has required anti-affinity that may be about pods of some namespaces.
func (c *Cluster) AnyRepelling(namespaces []string) bool {
	return len(c.repelling[anyNamespace]) > 0 || slices.ContainsFunc(namespaces, func(ns string) bool { return len(c.repelling[ns]) > 0 })
}

// EachRepelling calls f for every pod of those that have required anti-affinity which may be about pods of some namespaces, in no
// particular order.
func (c *Cluster) EachRepelling(namespaces []string, f func(pod *corev1.Pod, n NodeID)) {
	for _, scope := range append([]string{anyNamespace}, namespaces...) {
		for id := range c.repelling[scope] {
			r := c.pods[id]
			f(r.pod, r.node.id)
		}
	}
}

// anyNamespace is the scope of anti-affinity that names namespaces, or selects them.
const anyNamespace = ""

// scopeOf is the namespace whose pods a pod's required anti-affinity is about; none: it has no such rule.
func scopeOf(pod *corev1.Pod) (scope string, repels bool) {
	terms := antiAffinityTerms(pod)
	if slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }) {
		return anyNamespace, true
	}
	return pod.Namespace, len(terms) > 0
}

// repels keeps the list of pods that have required anti-affinity.
func (c *Cluster) repels(id string, r *record, k int) {
	if r.pod == nil || r.shape != nil && !r.shape.binds && len(r.shape.load.exclusive) == 0 { // without a look at the pod
		return
	}
	scope, repels := scopeOf(r.pod)
	switch {
	case !repels:
	case k > 0:
		if c.repelling[scope] == nil {
			c.repelling[scope] = map[string]struct{}{}
		}
		c.repelling[scope][id] = struct{}{}
	case !c.repelsStill(id, r, scope):
		if delete(c.repelling[scope], id); len(c.repelling[scope]) == 0 {
			delete(c.repelling, scope)
		}
	}
}

// repelsStill reports whether another record of a pod has taken the place of one, in the same list.
func (c *Cluster) repelsStill(id string, old *record, scope string) bool {
	now := c.pods[id]
	if now == nil || now == old || now.pod == nil {
		return false
	}
	at, repels := scopeOf(now.pod)
	return repels && at == scope
}
