// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "math"

// emptyCounts contains the capacity that a tree's nodes would have for a shape if they were empty and schedulable. The actual capacity
// cannot exceed this capacity, even if pods end or nodes are uncordoned. The counts change only when node objects change.
type emptyCounts struct {
	// specs and epoch identify the counted node objects and the counted tree.
	specs, epoch uint64
	// sum is the capacity by domain, and most the capacity of the largest node.
	sum  []int64
	most int32
	// matching counts the nodes that match the pods' selector and affinity. offered is, for each requested resource, the maximum amount
	// that one of these nodes offers.
	matching int
	offered  []int64
}

// WhenEmpty returns how many pods of the shape a domain would hold if its nodes were empty and schedulable, whatever their current state.
func (v *View) WhenEmpty(d DomainID) int { return int(v.whenEmpty().sum[d]) }

// HostWhenEmpty returns the maximum number of pods that one empty node would hold.
func (v *View) HostWhenEmpty() int { return int(v.whenEmpty().most) }

// Matching returns how many nodes of the tree match the pods' selector and affinity.
func (v *View) Matching() int { return v.whenEmpty().matching }

// Lacking returns a resource of which no matching node offers enough for one pod, with the maximum that a node offers. It returns false
// when, for each resource, some node offers enough.
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
	for d := len(v.empty.sum) - 1; d > int(Root); d-- { // a domain has a higher index than its parent
		v.empty.sum[t.domains[d].parent] += v.empty.sum[d]
	}
	return &v.empty
}

// count returns how many pods one node would hold if it were empty, and adds the node to the counts.
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
