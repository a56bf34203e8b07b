// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "math"

// emptyCounts are what the nodes of a tree would hold of a shape if nothing ran on them and each took pods: what no pod's end and no
// command to a node can exceed. They change with the objects of nodes only.
type emptyCounts struct {
	// specs and epoch say for which objects and for which tree they were counted.
	specs, epoch uint64
	// sum is per domain, most that of the largest node.
	sum  []int64
	most int32
	// matching counts the nodes that the pods' selector and affinity take, offered is the most that one of them offers of each thing the pods
	// want.
	matching int
	offered  []int64
}

// WhenEmpty is how many pods of the shape a domain would hold if nothing ran on its nodes and each took pods, whatever its state and
// taints are now.
func (v *View) WhenEmpty(d DomainID) int { return int(v.whenEmpty().sum[d]) }

// HostWhenEmpty is the most that one node would hold so.
func (v *View) HostWhenEmpty() int { return int(v.whenEmpty().most) }

// Matching is how many nodes of the tree the pods' selector and affinity take.
func (v *View) Matching() int { return v.whenEmpty().matching }

// Lacking is the resource of which no such node has as much as one pod asks for, with the most that one has; false when there is none,
// because each resource by itself suffices somewhere.
func (v *View) Lacking() (Exclusion, bool) {
	counts := v.whenEmpty()
	for i := range v.held.wants {
		if w := &v.held.wants[i]; counts.offered[i] < w.amount {
			return Exclusion{Kind: KindResource, Detail: w.name, Have: counts.offered[i], Need: w.amount}, true
		}
	}
	return Exclusion{}, false
}

func (v *View) whenEmpty() *emptyCounts {
	t, c := v.tree, v.tree.cluster
	if v.empty.sum != nil && v.empty.specs == c.specs && v.empty.epoch == t.epoch {
		return &v.empty
	}
	v.empty = emptyCounts{specs: c.specs, epoch: t.epoch, sum: make([]int64, len(t.domains)), offered: make([]int64, len(v.held.wants))}
	for _, n := range c.nodes {
		if n == nil || t.Home(n.id) == Nowhere {
			continue
		}
		if _, mismatch := c.labelsMismatch(n, v.shape); mismatch {
			continue
		}
		fit := v.empty.count(c, n, v.held, v.shape)
		v.empty.sum[t.Home(n.id)] += int64(fit)
	}
	for d := len(v.empty.sum) - 1; d > int(Root); d-- { // a domain comes after the one around it
		v.empty.sum[t.domains[d].parent] += v.empty.sum[d]
	}
	return &v.empty
}

// count notes one node.
func (e *emptyCounts) count(c *Cluster, n *node, h *held, s *Shape) int32 {
	fit := int64(math.MaxInt32)
	for i := range h.wants {
		w := &h.wants[i]
		c.work++
		offers := int64(0)
		switch {
		case !n.counts(w):
			offers = math.MaxInt64
		case w.resource != notOffered && w.resource < len(n.free):
			offers = n.free[w.resource]
		}
		e.offered[i] = max(e.offered[i], offers)
		if offers < math.MaxInt64 {
			fit = min(fit, offers/w.amount)
		}
	}
	if len(h.ports) > 0 || len(h.exclusive) > 0 {
		fit = min(fit, 1)
	}
	e.matching++
	pods := s.most(int32(fit))
	e.most = max(e.most, pods)
	return pods
}
