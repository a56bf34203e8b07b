// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// order contains the claims of pods that are bound one after the other. Each pod gets devices that are still free. The first pod with a
// shared claim determines the claim's allocation.
type order struct {
	*binding
	classes []*class
	hosts   []*host
}

// Order implements topology.Binding.
func (b *binding) Order(pods []topology.Waiting) topology.Order {
	o := &order{binding: b}
	for i := range pods {
		o.classes = append(o.classes, b.classOf(pods[i].Shape))
		o.hosts = append(o.hosts, b.host(b.cluster.NodeName(pods[i].Node)))
	}
	return o
}

// needs reports whether a pod still needs an allocation.
func (o *order) needs(i int) bool {
	c := o.classes[i]
	if c == nil || !c.rule.together {
		return false
	}
	list, _ := c.toAllocate(o.have(c), o.lacksOf(c, o.hosts[i]))
	return len(list) > 0
}

// Ties implements topology.Order. The ties of a pod are the devices of its node, the pools that the node can access, and the shared claims
// of the pod that are not allocated yet.
func (o *order) Ties(i int) (list []string) {
	if !o.needs(i) {
		return nil
	}
	h := o.hosts[i]
	if list = append(list, "devices of "+h.node.Name); !h.alone {
		for _, p := range h.pools {
			list = append(list, "pool "+p.id.driver+"/"+p.id.name)
		}
	}
	for _, c := range o.classes[i].sharing() {
		if o.shared[c.name] == nil {
			list = append(list, c.title+" in "+c.name.Namespace)
		}
	}
	return list
}

// Refuses implements topology.Order.
func (o *order) Refuses(i int) bool {
	c := o.classes[i]
	return c != nil && c.rule.together && o.why(c, o.hosts[i]) != ""
}

// Free implements topology.Order.
func (o *order) Free(i int) bool { return !o.needs(i) }

// Alike implements topology.Order.
func (o *order) Alike(i int) string {
	if o.needs(i) {
		return ""
	}
	return "any"
}

// Orderly implements topology.Order.
func (o *order) Orderly([]int) (every, known bool) { return false, false }

// State implements topology.Order. It covers the devices that are taken on the nodes of waiting pods, and the devices of shared claims.
func (o *order) State() (sum uint64) {
	for i, h := range o.hosts {
		if !slices.Contains(o.hosts[:i], h) {
			sum += topology.HashOf(h.node.Name) * (h.taken.sum + 1)
		}
	}
	for name, of := range o.shared {
		texts := []string{name.String(), of.at.node.Name}
		for k := range of.given {
			texts = append(texts, keyOf(&of.given[k]))
		}
		sum += topology.HashOf(texts...)
	}
	return sum
}
