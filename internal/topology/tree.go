// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DomainID identifies a domain of a Tree. It is valid until nodes change.
type DomainID int32

const (
	// Root is the whole cluster (all nodes that the tree's node selector matches) in every tree.
	Root DomainID = 0
	// Nowhere is the absence of a domain.
	Nowhere DomainID = -1
)

// Tree applies a list of levels to a Cluster and is updated as nodes change.
type Tree struct {
	cluster  *Cluster
	levels   Levels
	selector map[string]string
	domains  []domain
	// order lists the existing domains of each level in path order, so that the domains inside a broader domain are contiguous.
	order [][]DomainID
	// home is the narrowest domain of each node.
	home []DomainID
	// latest is the last domain that a lookup found. It is tried first, because nodes usually arrive rack by rack.
	latest DomainID
	dead   int
	// epoch changes with every build, shape with every change of the set of domains.
	epoch, shape uint64
	// position is the index of each existing domain in the order of its level; valid while numbered == shape.
	position []int32
	numbered uint64
	views    map[string]*View
	offered  map[int]*allocatable
}

type domain struct {
	path     Path
	parent   DomainID
	children []DomainID
	nodes    []NodeID
	// size is the number of nodes in the domain, including the domains inside it; a domain of size 0 is dead.
	size int
	// labels are created on demand.
	labels map[string]string
}

// Tree returns the tree of these levels over the nodes that the selector matches (nil: all). Equal arguments share one tree.
func (c *Cluster) Tree(levels Levels, nodeSelector map[string]string) *Tree {
	key := treeKey(make([]byte, 0, 256), levels, nodeSelector)
	t, ok := c.trees[string(key)]
	if !ok {
		t = &Tree{
			cluster: c, levels: slices.Clone(levels), selector: maps.Clone(nodeSelector),
			views: map[string]*View{}, offered: map[int]*allocatable{},
		}
		t.build()
		c.trees[string(key)] = t
	}
	return t
}

// NodeSelector returns the selector of the tree's nodes; empty: all. Callers must not change it.
func (t *Tree) NodeSelector() map[string]string { return t.selector }

// DropTree removes a tree that is no longer used.
func (c *Cluster) DropTree(levels Levels, nodeSelector map[string]string) {
	key := string(treeKey(nil, levels, nodeSelector))
	if t, ok := c.trees[key]; ok {
		for _, v := range t.views {
			c.unref(v.held)
		}
		delete(c.trees, key)
	}
}

// KeepTrees drops every tree for which keep returns false.
func (c *Cluster) KeepTrees(keep func(levels Levels, nodeSelector map[string]string) bool) {
	for _, t := range slices.Collect(maps.Values(c.trees)) {
		if !keep(t.levels, t.selector) {
			c.DropTree(t.levels, t.selector)
		}
	}
}

// treeKey appends the key that identifies a tree.
func treeKey(key []byte, levels Levels, selector map[string]string) []byte {
	for _, l := range levels {
		key = strconv.AppendQuote(strconv.AppendQuote(key, l.Domain), l.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(selector)) {
		key = strconv.AppendQuote(strconv.AppendQuote(append(key, '|'), name), selector[name])
	}
	return key
}

// build rebuilds the tree from all nodes.
func (t *Tree) build() {
	t.cluster.tick++
	t.epoch = t.cluster.tick
	t.shape++
	t.dead = 0
	t.domains = append(t.domains[:0], domain{parent: Nowhere})
	t.order = make([][]DomainID, len(t.levels))
	t.home, t.latest = fill(t.home[:0], len(t.cluster.nodes), Nowhere), Root
	for _, n := range t.cluster.nodes {
		if n != nil {
			t.settle(n)
		}
	}
}

// place moves a node to the domain of its current labels.
func (t *Tree) place(n *node) {
	t.settle(n)
	if t.dead > 64+len(t.domains)/2 {
		t.build()
	}
}

func (t *Tree) settle(n *node) {
	t.home = fill(t.home, int(n.id)+1, Nowhere)
	old, now := t.home[n.id], Nowhere
	if n.spec.present && matches(t.selector, n.spec.labels) {
		now = t.grow(n.spec.labels)
	}
	if old == now {
		return
	}
	if now != Nowhere {
		d := &t.domains[now]
		i := len(d.nodes)
		if i > 0 && t.byName(d.nodes[i-1], n.name) > 0 {
			i, _ = slices.BinarySearchFunc(d.nodes, n.name, t.byName)
		}
		d.nodes = slices.Insert(d.nodes, i, n.id)
	}
	if old != Nowhere {
		d := &t.domains[old]
		if i, found := slices.BinarySearchFunc(d.nodes, n.name, t.byName); found {
			d.nodes = slices.Delete(d.nodes, i, i+1)
		}
	}
	t.home[n.id] = now
	t.resize(now, 1)
	t.resize(old, -1)
}

func (t *Tree) byName(id NodeID, name string) int {
	return strings.Compare(t.cluster.nodes[id].name, name)
}

// grow returns the domain of a node's labels and creates missing domains.
func (t *Tree) grow(labels map[string]string) DomainID {
	if t.isHome(t.latest, labels) {
		return t.latest
	}
	at := Root
	for _, l := range t.levels {
		value := labels[l.Key]
		if value == "" {
			break
		}
		i, found := t.child(at, value)
		if !found {
			t.shape++
			id := DomainID(len(t.domains))
			path := append(slices.Clone(t.domains[at].path), value)
			d := domain{path: path, parent: at}
			if len(path) == len(t.levels) {
				d.nodes = make([]NodeID, 0, len(t.domains[t.latest].nodes)) // usually as many as its neighbour has
			}
			t.domains = append(t.domains, d)
			t.domains[at].children = slices.Insert(t.domains[at].children, i, id)
			order := &t.order[len(path)-1]
			j, _ := slices.BinarySearchFunc(*order, path, t.byPath)
			*order = slices.Insert(*order, j, id)
		}
		at = t.domains[at].children[i]
	}
	t.latest = at
	return at
}

// isHome reports whether an existing domain is the narrowest domain for a node's labels. It compares the narrowest level first, because
// nodes differ most often at this level.
func (t *Tree) isHome(d DomainID, labels map[string]string) bool {
	path := t.domains[d].path
	if t.domains[d].size == 0 || len(path) < len(t.levels) && labels[t.levels[len(path)].Key] != "" {
		return false
	}
	for level, value := range slices.Backward(path) {
		if labels[t.levels[level].Key] != value {
			return false
		}
	}
	return true
}

func (t *Tree) byPath(id DomainID, p Path) int { return t.domains[id].path.Compare(p) }

func (t *Tree) child(at DomainID, value string) (int, bool) {
	level := len(t.domains[at].path)
	return slices.BinarySearchFunc(t.domains[at].children, value, func(id DomainID, value string) int {
		return strings.Compare(t.domains[id].path[level], value)
	})
}

// resize adds k, which may be negative, to the size of a domain and of all domains that enclose it. It unlinks domains that become empty.
func (t *Tree) resize(at DomainID, k int) {
	for id := at; id != Nowhere; id = t.domains[id].parent {
		d := &t.domains[id]
		if d.size += k; d.size > 0 || id == Root {
			continue
		}
		t.dead++
		t.shape++
		level := len(d.path) - 1
		if i, found := t.child(d.parent, d.path[level]); found {
			siblings := &t.domains[d.parent].children
			*siblings = slices.Delete(*siblings, i, i+1)
		}
		if i, found := slices.BinarySearchFunc(t.order[level], d.path, t.byPath); found {
			t.order[level] = slices.Delete(t.order[level], i, i+1)
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}
