// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// memory caches the rules of running pods across plans. Pod objects are immutable, so an object always has the same rules.
type memory struct {
	plan     uint64
	ofPod    map[*corev1.Pod]*remembered
	bySource map[source]*repulsions
	// parsed counts the terms that were parsed.
	parsed int
}

// remembered contains a pod's rules, and the last plan that used the pod.
type remembered struct {
	*repulsions
	plan uint64
}

// repulsions are required anti-affinity terms that several pods may share.
type repulsions struct{ terms []term }

// source is the input of repulsions. It includes the pod's identity, because a term may copy labels of its pod into its selector, and
// because a term that matches its own pod may be a one-per-host term, which the node counts.
type source struct {
	affinity *corev1.Affinity
	identity string
}

// repulsionsOf returns the required anti-affinity terms of a pod.
func repulsionsOf(pod *corev1.Pod) []term {
	terms := antiAffinityTerms(pod)
	out := make([]term, 0, len(terms))
	for i := range terms {
		out = append(out, repulsion(pod, &terms[i]))
	}
	return out
}

// repulsionsOf returns the required anti-affinity terms of a running pod, parsed once.
func (m *memory) repulsionsOf(pod *corev1.Pod) *repulsions {
	if known := m.ofPod[pod]; known != nil {
		known.plan = m.plan
		return known.repulsions
	}
	if m.ofPod == nil {
		m.ofPod, m.bySource = map[*corev1.Pod]*remembered{}, map[source]*repulsions{}
	}
	from := source{pod.Spec.Affinity, identity(pod)}
	if m.bySource[from] == nil {
		m.bySource[from] = &repulsions{terms: repulsionsOf(pod)}
		m.parsed += len(m.bySource[from].terms)
	}
	m.ofPod[pod] = &remembered{m.bySource[from], m.plan}
	return m.ofPod[pod].repulsions
}

// forgetAfter is the number of plans after which an unused pod is dropped.
const forgetAfter = 256

// forget marks the end of a plan. Every forgetAfter plans, it drops the pods that no recent plan used.
func (m *memory) forget() {
	m.plan++
	if m.plan%forgetAfter != 0 {
		return
	}
	m.bySource = map[source]*repulsions{}
	for pod, r := range m.ofPod {
		if m.plan-r.plan > forgetAfter {
			delete(m.ofPod, pod)
		} else {
			m.bySource[source{pod.Spec.Affinity, identity(pod)}] = r.repulsions
		}
	}
}

// namespacesOf returns the namespaces of a plan's pods.
func namespacesOf(shapes []*topology.Shape) (out []string) {
	for _, s := range shapes {
		if pod := s.Pod(); pod != nil && !slices.Contains(out, pod.Namespace) {
			out = append(out, pod.Namespace)
		}
	}
	return out
}
