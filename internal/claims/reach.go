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

// nodes are those that reach a slice, or a device: the named one, all, or those that the selector takes.
type nodes struct {
	name     string
	all      bool
	selector *nodeaffinity.NodeSelector
}

// nodesOf reads which nodes reach the devices of a slice: one entry for all of them, or one for each.
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

// readNodes takes a selector that cannot be read for one of all nodes, as the allocator refuses to decide there.
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

// reachedBy reports whether a node reaches devices of the pool.
func (p *pool) reachedBy(node *corev1.Node) bool {
	for _, list := range p.nodes {
		if slices.ContainsFunc(list, func(n nodes) bool { return n.have(node) }) {
			return true
		}
	}
	return false
}

// partOf is equal for nodes that reach the same devices of the pool.
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

// only reports whether an allocation can be used on one node alone, by name.
func only(selector *corev1.NodeSelector, node string) bool {
	return selector != nil && slices.ContainsFunc(selector.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField && slices.Equal(r.Values, []string{node})
		})
	})
}

// each calls f for the nodes that were asked about and reach a pool, or reach it by now.
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

// forget drops what is known of the nodes that reach a pool whose devices change.
func (s *Store) forget(p *pool) {
	p.text = ""
	s.each(p, func(node string, _ *hostDevices) { delete(s.hosts, node) })
}

// prune drops what is known of nodes that the cluster does not have any more, once there are many.
func (s *Store) prune(c *topology.Cluster) {
	if len(s.hosts) > c.Size()+maxGone {
		maps.DeleteFunc(s.hosts, func(node string, _ *hostDevices) bool {
			_, known := c.Node(node)
			return !known
		})
	}
}
