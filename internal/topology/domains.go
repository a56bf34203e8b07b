// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// Levels returns the tree's levels.
func (t *Tree) Levels() Levels { return t.levels }

// Find returns the domain of a path; false if the domain has no nodes.
func (t *Tree) Find(p Path) (DomainID, bool) {
	at := Root
	if len(p) > len(t.levels) {
		return Nowhere, false
	}
	for _, value := range p {
		i, found := t.child(at, value)
		if !found {
			return Nowhere, false
		}
		at = t.domains[at].children[i]
	}
	return at, true
}

// Path returns the path of a domain. Callers must not change it.
func (t *Tree) Path(d DomainID) Path { return t.domains[d].path }

// Labels returns the labels that identify the nodes of the domain: the whole path, and the node selector. Callers must not change them.
func (t *Tree) Labels(d DomainID) map[string]string {
	at := &t.domains[d]
	if at.labels == nil {
		at.labels = t.levels.Labels(at.path, t.selector)
	}
	return at.labels
}

// LevelOf returns the level of a domain; NoLevel for the root.
func (t *Tree) LevelOf(d DomainID) int { return len(t.domains[d].path) - 1 }

// Parent returns the enclosing domain; Nowhere for the root.
func (t *Tree) Parent(d DomainID) DomainID { return t.domains[d].parent }

// Size returns the number of nodes in a domain.
func (t *Tree) Size(d DomainID) int { return t.domains[d].size }

// Children returns the domains one level below, in path order. Callers must not change the list.
func (t *Tree) Children(d DomainID) []DomainID { return t.domains[d].children }

// Nodes returns the nodes directly in the domain, not in a child, in name order. Callers must not change the list.
func (t *Tree) Nodes(d DomainID) []NodeID { return t.domains[d].nodes }

// Home returns the narrowest domain of a node; Nowhere when it is not in the tree.
func (t *Tree) Home(n NodeID) DomainID {
	if int(n) >= len(t.home) {
		return Nowhere
	}
	return t.home[n]
}

// HostOf returns the node on which a pod is bound or has a reservation; false for none.
func (t *Tree) HostOf(id string) (NodeID, bool) {
	if r := t.cluster.pods[id]; r != nil {
		return r.node.id, true
	}
	return 0, false
}

// At returns the domain of the given level that contains d; Nowhere when d is broader than this level.
func (t *Tree) At(d DomainID, level int) DomainID {
	for d != Nowhere && t.LevelOf(d) > level {
		d = t.domains[d].parent
	}
	if d == Nowhere || t.LevelOf(d) < level {
		return Nowhere
	}
	return d
}

// Within reports whether d is the outer domain or lies inside it.
func (t *Tree) Within(d, outer DomainID) bool {
	return t.At(d, t.LevelOf(outer)) == outer
}

// Domains returns the domains of a level inside d, in path order; only d if d has this level. Callers must not change the list.
func (t *Tree) Domains(level int, d DomainID) []DomainID {
	from := t.LevelOf(d)
	switch {
	case level < from || level >= len(t.levels):
		return nil
	case level == from:
		return []DomainID{d}
	case d == Root:
		return t.order[level]
	case level == from+1:
		return t.domains[d].children
	}
	path, order := t.domains[d].path, t.order[level]
	prefix := func(id DomainID, p Path) int { return slices.Compare(t.domains[id].path[:len(p)], p) }
	low, _ := slices.BinarySearchFunc(order, path, prefix)
	high, _ := slices.BinarySearchFunc(order, path, func(id DomainID, p Path) int {
		if prefix(id, p) <= 0 {
			return -1
		}
		return 1
	})
	return order[low:high]
}

// AllNodes calls f for every node in a domain until f returns false. The nodes directly in a domain come before the nodes of its children.
// Children are in path order, and the nodes directly in a domain are in name order.
func (t *Tree) AllNodes(d DomainID, f func(NodeID) bool) bool {
	for _, n := range t.domains[d].nodes {
		if !f(n) {
			return false
		}
	}
	for _, child := range t.domains[d].children {
		if !t.AllNodes(child, f) {
			return false
		}
	}
	return true
}
