// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AnyRepelling reports whether any pod has required anti-affinity that may apply to pods of the given namespaces.
func (c *Cluster) AnyRepelling(namespaces []string) bool {
	return len(c.repelling[anyNamespace]) > 0 || slices.ContainsFunc(namespaces, func(ns string) bool { return len(c.repelling[ns]) > 0 })
}

// EachRepelling calls f for every pod with required anti-affinity that may apply to pods of the given namespaces, in no particular order.
func (c *Cluster) EachRepelling(namespaces []string, f func(pod *corev1.Pod, n NodeID)) {
	for _, scope := range append([]string{anyNamespace}, namespaces...) {
		for id := range c.repelling[scope] {
			r := c.pods[id]
			f(r.pod, r.node.id)
		}
	}
}

// anyNamespace is the scope of anti-affinity terms with namespaces or a namespace selector.
const anyNamespace = ""

// scopeOf returns the namespace to whose pods the required anti-affinity of a pod applies, or anyNamespace; false for a pod without
// required anti-affinity.
func scopeOf(pod *corev1.Pod) (scope string, repels bool) {
	terms := antiAffinityTerms(pod)
	if slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }) {
		return anyNamespace, true
	}
	return pod.Namespace, len(terms) > 0
}

// repels adds a pod with required anti-affinity to the list of such pods (k > 0), or removes it.
func (c *Cluster) repels(id string, r *record, k int) {
	if r.pod == nil || r.shape != nil && !r.shape.binds && len(r.shape.load.exclusive) == 0 { // no such rule, known without reading the pod
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

// repelsStill reports whether a newer record of the pod keeps the pod in the list of the scope.
func (c *Cluster) repelsStill(id string, old *record, scope string) bool {
	now := c.pods[id]
	if now == nil || now == old || now.pod == nil {
		return false
	}
	at, repels := scopeOf(now.pod)
	return repels && at == scope
}
