// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// nodes identifies the nodes that can access a slice or a device: the named node, all nodes, or the nodes that the selector matches.
type nodes struct {
	name     string
	all      bool
	selector *nodeaffinity.NodeSelector
}

// nodesOf returns the nodes that can access the devices of a slice: one entry for all devices, or one entry per device.
func nodesOf(slice *resourcev1.ResourceSlice) []nodes {
	if !ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) {
		return []nodes{readNodes(slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector)}
	}
	list := make([]nodes, 0, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		list = append(list, readNodes(d.NodeName, d.AllNodes, d.NodeSelector))
	}
	return list
}

// readNodes reads the nodes of a slice or a device. An invalid selector counts as a selector of all nodes, because the allocator returns an
// error on these nodes.
func readNodes(name *string, all *bool, selector *corev1.NodeSelector) nodes {
	n := nodes{name: ptr.Deref(name, ""), all: ptr.Deref(all, false)}
	if selector == nil {
		return n
	}
	var err error
	n.selector, err = nodeaffinity.NewNodeSelector(selector)
	n.all = n.all || err != nil
	return n
}

func (n *nodes) have(node *corev1.Node) bool {
	switch {
	case n.name != "":
		return n.name == node.Name
	case n.all:
		return true
	}
	return n.selector != nil && n.selector.Match(node)
}

// reachedBy reports whether a node can access devices of the pool.
func (p *pool) reachedBy(node *corev1.Node) bool {
	for _, list := range p.nodes {
		if slices.ContainsFunc(list, func(n nodes) bool { return n.have(node) }) {
			return true
		}
	}
	return false
}

// partOf returns a text that is equal for nodes that can access the same devices of the pool.
func (p *pool) partOf(node *corev1.Node) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		for i := range p.nodes[name] {
			if p.nodes[name][i].have(node) {
				b.WriteByte('1')
			} else {
				b.WriteByte('0')
			}
		}
	}
	return b.String()
}

// only reports whether an allocation can be used only on one node, which its selector selects by name.
func only(selector *corev1.NodeSelector, node string) bool {
	return selector != nil && slices.ContainsFunc(selector.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField && slices.Equal(r.Values, []string{node})
		})
	})
}

// each calls f for the cached nodes that can access a pool, or could access it before a change.
func (s *Store) each(p *pool, f func(node string, h *hostDevices)) {
	if s.wide[p.id] != nil {
		for node, h := range s.hosts {
			if slices.Contains(h.pools, p) || p.reachedBy(h.node) {
				f(node, h)
			}
		}
		return
	}
	for _, slice := range p.slices {
		node := ptr.Deref(slice.Spec.NodeName, "")
		if h := s.hosts[node]; h != nil {
			f(node, h)
		}
	}
}

// forget drops the cached devices of the nodes that can access a changed pool.
func (s *Store) forget(p *pool) {
	p.text = ""
	s.each(p, func(node string, _ *hostDevices) { delete(s.hosts, node) })
}

// prune drops the cached devices of nodes that the cluster no longer has, if there are too many such nodes.
func (s *Store) prune(c *topology.Cluster) {
	if len(s.hosts) > c.Size()+maxGone {
		maps.DeleteFunc(s.hosts, func(node string, _ *hostDevices) bool {
			_, known := c.Node(node)
			return !known
		})
	}
}
