// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Preference describes how well a node suits a pod, among the nodes that can hold it. It has the two properties by which the kube-scheduler
// would score nodes if the pod were not pinned to a host.
type Preference struct {
	// Taints counts the node's PreferNoSchedule taints that the pod does not tolerate.
	Taints int
	// Weight is the sum of the weights of the pod's preferred node affinity terms that match the node.
	Weight int64
}

// Better reports whether one preference is better than another: fewer taints, then the higher weight.
func (p Preference) Better(than Preference) bool {
	if p.Taints != than.Taints {
		return p.Taints < than.Taints
	}
	return p.Weight > than.Weight
}

// Prefers reports whether pods of the shape may prefer some nodes to others.
func (c *Cluster) Prefers(s *Shape) bool { return s.preferred != nil || c.softTaints > 0 }

// Preference returns how well a node suits pods of the shape.
func (c *Cluster) Preference(id NodeID, s *Shape) (p Preference) {
	n := c.nodes[id]
	for i := range n.spec.soft {
		if c.work++; !c.tolerated(s, &n.spec.soft[i]) {
			p.Taints++
		}
	}
	if s.preferred != nil {
		c.work++
		c.scratch.Name, c.scratch.Labels = n.name, n.spec.labels
		p.Weight = s.preferred.Score(&c.scratch)
	}
	return p
}

// Cluster returns the store that the tree is built on.
func (t *Tree) Cluster() *Cluster { return t.cluster }

// OnlyNode returns the only node of a domain; false when the domain has several nodes or none.
func (t *Tree) OnlyNode(d DomainID) (only NodeID, is bool) {
	at := &t.domains[d]
	if at.size != 1 {
		return 0, false
	}
	for len(at.nodes) == 0 {
		next := Nowhere
		for _, child := range at.children {
			if t.domains[child].size > 0 {
				next = child
			}
		}
		if next == Nowhere {
			return 0, false
		}
		at = &t.domains[next]
	}
	return at.nodes[0], true
}

// preferredTerms returns the preferred node affinity terms of a pod; nil when it has none, or a term is invalid.
func preferredTerms(pod *corev1.Pod) *nodeaffinity.PreferredSchedulingTerms {
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return nil
	}
	return terms
}
