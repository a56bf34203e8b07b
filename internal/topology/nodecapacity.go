// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import corev1 "k8s.io/api/core/v1"

// NodeCapacity is the capacity of one node for a resource, in the units of the resource; cpu is in thousandths.
type NodeCapacity struct {
	// Used is the amount that bound pods and reservations use.
	Used int64
	// Free is the unused amount that is available to pods of the shapes: 0 on a node that is closed to them.
	Free int64
	// Total is the allocatable amount.
	Total int64
}

// CapacityOf counts a resource on a node as plans do, for pods of the shapes. It is zero for an unknown node.
func (c *Cluster) CapacityOf(name, resource string, shapes ...*Shape) NodeCapacity {
	at, n := c.resources.of(resource), c.byName[name]
	if n == nil || at == notOffered {
		return NodeCapacity{}
	}
	left, capacity := n.available(at), NodeCapacity{}
	if n.has(at) {
		capacity.Total = n.free[at]
	}
	capacity.Used = capacity.Total - left
	if _, closed := c.Closed(name, shapes...); !closed {
		capacity.Free = max(left, 0)
	}
	return capacity
}

// Closed returns the reason why a node takes no pods of any of the shapes, regardless of their requests: a cordon, the node's condition, a
// reservation, a taint, or the node's upcoming removal. It does not consider selectors and affinity. It returns false for an unknown node.
func (c *Cluster) Closed(name string, shapes ...*Shape) (Exclusion, bool) {
	n := c.byName[name]
	if n == nil {
		return Exclusion{}, false
	}
	var first Exclusion
	for i, s := range shapes {
		e, closed := c.closed(n, s)
		if !closed {
			e, closed = c.tainted(n, s)
		}
		if !closed && n.spec.leaving {
			e, closed = Exclusion{Kind: KindLeaving}, true
		}
		if !closed {
			return Exclusion{}, false
		}
		if i == 0 {
			first = e
		}
	}
	return first, len(shapes) > 0
}

// Ignores reports whether a resource is counted on no node; see [Cluster.Ignore].
func (c *Cluster) Ignores(resource string) bool { return c.ignored.has(resource) }

// Requested returns the amount of a resource that a pod requests, as [RequestsOf] counts it.
func Requested(pod *corev1.Pod, resource string) int64 {
	for _, r := range RequestsOf(pod) {
		if r.Name == resource {
			return r.Amount
		}
	}
	return 0
}
