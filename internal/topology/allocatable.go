// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// allocatable caches the total allocatable amount of one resource by domain; unknownFree marks domains whose sum is not computed yet.
type allocatable struct {
	// specs and epoch identify the node objects and the tree from which the sums were computed.
	specs, epoch uint64
	sum          []int64
}

// Allocatable returns the total amount of a resource that the nodes of a domain offer, used or not. It returns false if the resource is
// ignored or a DeviceClass serves it, because some or all nodes do not count it. The sum is computed on demand and kept until a node object
// changes.
func (t *Tree) Allocatable(d DomainID, resource string) (sum int64, counts bool) {
	c := t.cluster
	if c.ignored.has(resource) || c.served[resource] {
		return 0, false
	}
	index := c.resources.of(resource)
	if index == notOffered {
		return 0, true
	}
	a := t.offered[index]
	if a == nil || a.specs != c.specs || a.epoch != t.epoch {
		a = &allocatable{specs: c.specs, epoch: t.epoch, sum: fill(nil, len(t.domains), int64(unknownFree))}
		t.offered[index] = a
	}
	return t.addAllocatable(a, d, index), true
}

func (t *Tree) addAllocatable(a *allocatable, d DomainID, index int) int64 {
	if a.sum[d] != unknownFree {
		return a.sum[d]
	}
	sum := int64(0)
	for _, id := range t.domains[d].nodes {
		t.cluster.work++
		if n := t.cluster.nodes[id]; index < len(n.free) {
			sum += n.free[index]
		}
	}
	for _, child := range t.domains[d].children {
		sum += t.addAllocatable(a, child, index)
	}
	a.sum[d] = sum
	return sum
}
