// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
)

// changes are what was replaced since the last call of [Cluster.Freed].
type changes struct {
	// records are what counted for pods before. What was added in a transaction knows it itself ([record].added).
	records map[string]*record
	// specs are the nodes whose objects changed, reservedFor is for whom nodes were reserved before.
	specs       map[string]bool
	reservedFor map[string]string
	// some: [Cluster.OnFreed] was called.
	some bool
}

// Freed lists, in order, the nodes on which something may fit that did not at the last call: less is used there by bound pods and
// reservations, the node's object changed, or the node is no longer reserved for someone. What a transaction has put back is not freed.
// Call it outside of transactions.
func (c *Cluster) Freed() []string {
	freed := c.changes.specs
	if freed == nil {
		freed = map[string]bool{}
	}
	for id, was := range c.changes.records {
		if c.frees(id, was) {
			freed[was.node.name] = true
		}
	}
	for name, who := range c.changes.reservedFor {
		if n := c.byName[name]; n != nil && who != "" && n.reservedFor != who {
			freed[name] = true
		}
	}
	c.changes = changes{}
	c.calls++
	return slices.Sorted(maps.Keys(freed))
}

// frees reports whether a pod takes less of the node now that it was on.
func (c *Cluster) frees(id string, was *record) bool {
	now := c.pods[id]
	return now == nil || now.node.name != was.node.name || now.held != was.held && now.held.leaves(was.held)
}

// leaves reports whether a load takes less than another one of some resource, or leaves out a port or a rule of it.
func (h *held) leaves(other *held) bool {
	return h.needsLess(other) || lacksAny(h.ports, other.ports) || lacksAny(h.exclusive, other.exclusive)
}

// lacksAny reports whether a list lacks something that another one has.
func lacksAny[T comparable](list, other []T) bool {
	if len(other) == 0 {
		return false
	}
	has := make(map[T]bool, len(list))
	for _, one := range list {
		has[one] = true
	}
	return slices.ContainsFunc(other, func(one T) bool { return !has[one] })
}

// noteRecord is told what counts for a pod before and after a change, nil for nothing. What is added outside of a transaction, and gone
// again before the next call of [Cluster.Freed], may count as freed.
func (c *Cluster) noteRecord(id string, was, now *record) {
	if was == nil || was.added == c.calls {
		if now != nil && (was != nil || len(c.marks) > 0) {
			now.added = c.calls
		}
		return
	}
	if _, known := c.changes.records[id]; known {
		return
	}
	if c.changes.records == nil {
		c.changes.records = map[string]*record{}
	}
	c.changes.records[id] = was
	c.noteSome()
}

// noteSpec is told that what is known of a node's object changed.
func (c *Cluster) noteSpec(name string) {
	if c.changes.specs == nil {
		c.changes.specs = map[string]bool{}
	}
	c.changes.specs[name] = true
	c.noteSome()
}

// noteReserved is told for whom a node was reserved before that changed.
func (c *Cluster) noteReserved(name, was string) {
	if _, known := c.changes.reservedFor[name]; known {
		return
	}
	if c.changes.reservedFor == nil {
		c.changes.reservedFor = map[string]string{}
	}
	c.changes.reservedFor[name] = was
	c.noteSome()
}

func (c *Cluster) noteSome() {
	if !c.changes.some && c.OnFreed != nil {
		c.OnFreed()
	}
	c.changes.some = true
}
