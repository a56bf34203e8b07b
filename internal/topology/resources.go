// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// resources assigns an index to each resource name that nodes offer, so that amounts can be stored as lists of numbers. Names that no node
// offers have no index. Pods that request such a name fit nowhere, unless it is ignored or served. The index of a name is freed when no
// node offers the name anymore.
type resources struct {
	index  map[string]int
	names  []string
	nodes  []int // nodes that offer each name
	vacant []int
	// last contains the offers of the previous node. The next node often has equal offers.
	last []Request
}

const (
	// podSlots is the index of the "pods" resource in every cluster: how many pods a node takes.
	podSlots = 0
	// notOffered is the index of a name that no node offers.
	notOffered = -1
)

func newResources() resources {
	return resources{index: map[string]int{string(corev1.ResourcePods): podSlots}, names: []string{string(corev1.ResourcePods)},
		nodes: []int{1}}
}

// of returns the index of a name, or notOffered.
func (r *resources) of(name string) int {
	if i, offered := r.index[name]; offered {
		return i
	}
	return notOffered
}

// offer counts one more node that offers a resource name, and reports whether this node is the first.
func (r *resources) offer(name string) (i int, first bool) {
	i, known := r.index[name]
	if known {
		r.nodes[i]++
		return i, false
	}
	if last := len(r.vacant) - 1; last >= 0 {
		i, r.vacant = r.vacant[last], r.vacant[:last]
		r.names[i], r.nodes[i] = name, 1
	} else {
		i, r.names, r.nodes = len(r.names), append(r.names, name), append(r.nodes, 1)
	}
	r.index[name] = i
	return i, true
}

// withdraw counts one node less that offers a resource name, and reports whether this node was the last.
func (r *resources) withdraw(name string) (i int, last bool) {
	i = r.index[name]
	if r.nodes[i]--; r.nodes[i] > 0 || i == podSlots {
		return i, false
	}
	delete(r.index, name)
	r.names[i], r.vacant = "", append(r.vacant, i)
	return i, true
}

// setOffers replaces the offers of a node. A name that is new to the cluster requires a pass over all pods, because requests for it are
// counted from now on. A name that is no longer offered requires a pass over all nodes, because requests for it are no longer counted.
func (c *Cluster) setOffers(n *node, old, now []Request) {
	for _, r := range now {
		if i, first := c.resources.offer(r.Name); first {
			c.countOffered(r.Name, i)
		}
	}
	for _, r := range old {
		if i, last := c.resources.withdraw(r.Name); last {
			c.forgetOffered(i)
		}
	}
	n.free = n.free[:0]
	for _, r := range now {
		i := c.resources.index[r.Name]
		n.free = fill(n.free, i+1, 0)
		n.free[i] = r.Amount
	}
}

func (c *Cluster) countOffered(name string, i int) {
	amounts := map[*held]int64{}
	for _, h := range c.loads {
		if at, asks := slices.BinarySearchFunc(h.wants[1:], name, func(w want, name string) int { return strings.Compare(w.name, name) }); asks {
			h.wants[1+at].resource = i
			amounts[h] = h.wants[1+at].amount
		}
	}
	if len(amounts) == 0 {
		return
	}
	for _, r := range c.pods {
		if amount := amounts[r.held]; amount > 0 {
			r.node.use(i, amount)
		}
	}
}

func (c *Cluster) forgetOffered(i int) {
	for _, h := range c.loads {
		for w := range h.wants {
			if h.wants[w].resource == i {
				h.wants[w].resource = notOffered
			}
		}
	}
	for _, n := range c.byName {
		if i < len(n.used) {
			n.used[i] = 0
		}
	}
}

// use adds an amount to the used amount of a resource.
func (n *node) use(resource int, amount int64) {
	n.used = fill(n.used, resource+1, 0)
	n.used[resource] += amount
}

// offersOf lists the allocatable resources of a node by name, without amounts of zero: cpu in thousandths, other resources as plain
// amounts.
func offersOf(n *corev1.Node) []Request {
	var offers []Request
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		quantity := n.Status.Allocatable[name]
		amount := quantity.Value()
		if name == corev1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		if amount > 0 {
			offers = append(offers, Request{string(name), amount})
		}
	}
	return offers
}
