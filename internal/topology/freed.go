// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
)

// changes describes what changed since the last call of [Cluster.Freed].
type changes struct {
	// records are the previous records of pods. Records that a transaction added are marked in [record].added instead.
	records map[string]*record
	// specs contains the nodes whose objects changed. reservedFor contains the previous names for which nodes were reserved.
	specs       map[string]bool
	reservedFor map[string]string
	// some: a change is recorded.
	some bool
}

// Freed lists, sorted by name, the nodes where pods may fit that did not fit at the last call. On such a node, bound pods and reservations
// use less, the Node object changed, or the reservation of the whole node ended. Freed ignores changes that a transaction rolled back. Call
// it outside of transactions.
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

// frees reports whether a pod now uses less of its former node.
func (c *Cluster) frees(id string, was *record) bool {
	now := c.pods[id]
	return now == nil || now.node.name != was.node.name || now.held != was.held && now.held.leaves(was.held)
}

// leaves reports whether a load uses less of some resource than another load, or lacks one of the other load's ports or rules.
func (h *held) leaves(other *held) bool {
	return h.needsLess(other) || lacksAny(h.ports, other.ports) || lacksAny(h.exclusive, other.exclusive)
}

// lacksAny reports whether a list lacks an item of another list.
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

// noteRecord keeps the previous record of a pod whose record was replaced; nil stands for no record. If a pod is added outside of a
// transaction and removed before the next call of [Cluster.Freed], Freed may list its node.
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

// noteSpec records a change of a node's object.
func (c *Cluster) noteSpec(name string) {
	if c.changes.specs == nil {
		c.changes.specs = map[string]bool{}
	}
	c.changes.specs[name] = true
	c.noteSome()
}

// noteReserved records the name for which a node was reserved before its reservation changed.
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
