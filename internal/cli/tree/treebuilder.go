// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// States of nodes, in addition to the texts of [topology.Exclusion].
const (
	// StateNotReady is the text of topology.KindNotReady.
	StateNotReady = string(topology.KindNotReady)
	// StateGone: a pod is bound to a node that no longer exists.
	StateGone = "gone"
	// stateUnknown: the domain of the node is unknown.
	stateUnknown = "unknown"
)

// tree makes the tree of one view, with the pods of the graphs that are drawn in this view.
func (s *Scene) tree(v view, graphs []*graphPods, count counter, whole bool) Tree {
	p := treeBuilder{counter: count, domains: map[string]*Domain{}, pods: map[string][]Pod{}}
	if whole {
		p.foreign = s.foreign(v, graphs, count)
	}
	p.levels, p.node = v.above()
	onlyFromPods := map[string]map[string]string{} // nodes known only from pods, with the labels to which a pod was pinned
	for _, g := range graphs {
		if !g.in.equal(v) {
			continue
		}
		for _, pod := range g.pods {
			if pod.node != "" {
				p.pods[pod.node] = append(p.pods[pod.node], pod.Pod)
				onlyFromPods[pod.node] = pod.object.Spec.NodeSelector
			}
		}
	}
	root := &Domain{Name: v.name}
	p.domains[""] = root
	hosts := s.hostsOf(v)
	for _, n := range s.Nodes {
		if hosts.Has(n.Name) || p.pods[n.Name] != nil {
			p.addNode(n.Name, n.Labels, count.state(n.Name), "")
		}
		delete(onlyFromPods, n.Name)
	}
	for name, labels := range onlyFromPods {
		state := StateGone
		if s.NodesHidden {
			state = ""
		}
		p.addNode(name, labels, state, stateUnknown)
	}
	root.sum()
	tree := Tree{Topology: v.name, Levels: v.names(), Cluster: root}
	if t := s.World.Topology(v.name); t.FromBinding() {
		tree.TopologyKind = t.Source()
	}
	return tree
}

// treeBuilder adds nodes to a growing tree.
type treeBuilder struct {
	counter
	levels  topology.Levels
	node    string
	domains map[string]*Domain
	pods    map[string][]Pod
	// foreign pods by node; nil except for Whole.
	foreign map[string][]Pod
}

// foreign returns, by node, the pods of graphs that are placed by another view, and the pods of no shown graph that use the counted
// resource.
func (s *Scene) foreign(v view, graphs []*graphPods, count counter) map[string][]Pod {
	out, members := map[string][]Pod{}, map[*corev1.Pod]bool{}
	for _, g := range graphs {
		for _, pod := range g.pods {
			members[pod.object] = true
			if pod.node != "" && !g.view.equal(v) {
				out[pod.node] = append(out[pod.node], pod.Pod)
			}
		}
	}
	for _, p := range s.Pods {
		node, released := s.nodeOf(p)
		if node == "" || members[p] {
			continue
		}
		if pod := (Pod{Namespace: p.Namespace, Name: p.Name, Amount: count.takes(p)}); pod.Amount > 0 {
			if released {
				pod.State = stateReleased
			}
			out[node] = append(out[node], pod)
		}
	}
	return out
}

// addNode adds a node to its domain. If the node lacks labels of levels, addNode adds it to a domain without a name at the first of these
// levels. nameless is the state of that domain.
func (p *treeBuilder) addNode(name string, labels map[string]string, state, nameless string) {
	path := p.levels.PathOf(labels)
	if len(path) < len(p.levels) {
		path = append(path, "")
	}
	d := p.domains[""]
	for i, value := range path {
		key := strings.Join(path[:i+1], "\x00") + "\x00"
		if value == "" {
			key += nameless
		}
		child := p.domains[key]
		if child == nil {
			child = &Domain{Level: p.levels[i].Domain, Name: value}
			if value == "" {
				child.State = nameless
			}
			p.domains[key] = child
			d.Children = append(d.Children, child)
		}
		d = child
	}
	leaf := &Domain{
		Level: p.node, Name: name, Node: true, State: state, Pods: p.pods[name], Foreign: p.foreign[name], Amount: p.amount(name), nodes: 1,
	}
	slices.SortFunc(leaf.Pods, comparePods)
	slices.SortFunc(leaf.Foreign, comparePods)
	d.Children = append(d.Children, leaf)
}

// sum adds up the amounts below a domain and sorts its children. Nodes without a label come last.
func (d *Domain) sum() {
	for _, child := range d.Children {
		child.sum()
		d.Amount = d.Amount.add(child.Amount)
		d.nodes += child.nodes
	}
	slices.SortFunc(d.Children, func(a, b *Domain) int {
		if (a.Name == "") != (b.Name == "") {
			return strings.Compare(b.Name, a.Name)
		}
		return cli.Natural(a.Name, b.Name)
	})
}
