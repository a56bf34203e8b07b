// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Node is the input for one node.
type Node struct {
	Name   string
	Labels map[string]string
	// Accelerated: the node has GPUs or other accelerators. If any node is accelerated, all other nodes are ignored.
	Accelerated bool
}

// Level is one level of a proposal.
type Level struct {
	Domain string `json:"domain"`
	Key    string `json:"key"`
	// From is the product that writes the label.
	From string `json:"from"`
	// Domains counts the paths that end at this level, Nodes the nodes in these domains.
	Domains int `json:"domains"`
	Nodes   int `json:"nodes"`
}

// Proposal is the hierarchy derived from the labels of the nodes.
type Proposal struct {
	// Nodes counts the nodes considered, Others the nodes ignored.
	Nodes  int     `json:"nodes"`
	Others int     `json:"others"`
	Levels []Level `json:"levels"`
	// Notes describe omitted labels, nodes that lack labels, and inconsistencies, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Propose orders the known labels of the nodes from the broadest to the narrowest. It omits labels that fewer than half of the nodes have,
// labels that group the nodes identically to another label, and labels that are broader than a zone and have only one value. The hostname
// is the last level.
func Propose(nodes []Node) Proposal {
	p := &proposer{}
	p.choose(nodes)
	p.collect()
	p.dropSparse()
	p.dropAlike()
	p.order()
	p.scan()
	return p.out
}

type proposer struct {
	nodes   []Node
	labels  []map[string]string
	columns []*column
	out     Proposal
}

// column contains the values of one label on all nodes.
type column struct {
	Key
	// values contains the value by node; "" where the node lacks the label.
	values   []string
	count    int
	distinct int
}

func (p *proposer) note(format string, args ...any) {
	p.out.Notes = append(p.out.Notes, fmt.Sprintf(format, args...))
}

func (p *proposer) choose(nodes []Node) {
	for _, n := range nodes {
		if n.Accelerated {
			p.nodes = append(p.nodes, n)
		}
	}
	if len(p.nodes) == 0 {
		p.nodes = slices.Clone(nodes)
	}
	slices.SortFunc(p.nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	p.out.Nodes, p.out.Others = len(p.nodes), len(nodes)-len(p.nodes)
	for _, n := range p.nodes {
		p.labels = append(p.labels, n.Labels)
	}
}

// collect creates a column for every label with a known rank, in the order of preference, and adds a note about other network labels.
func (p *proposer) collect() {
	names := map[string]bool{}
	for _, labels := range p.labels {
		for name := range labels {
			names[name] = true
		}
	}
	var unknown []*column
	for _, name := range slices.Sorted(maps.Keys(names)) {
		key, ok := Look(name)
		if !ok && !ofNetwork(name) {
			continue
		}
		switch c := p.column(key); {
		case ok && c.count > 0:
			p.columns = append(p.columns, c)
		case !ok && c.distinct > 1 && c.distinct < c.count:
			unknown = append(unknown, c)
		}
	}
	p.noteUnknown(unknown)
	slices.SortStableFunc(p.columns, func(a, b *column) int {
		return cmp.Or(cmp.Compare(preference(a.Name), preference(b.Name)), cmp.Compare(a.Rank, b.Rank))
	})
}

// column reads one label of all nodes.
func (p *proposer) column(key Key) *column {
	c, seen := &column{Key: key, values: make([]string, len(p.nodes))}, map[string]bool{}
	for i, labels := range p.labels {
		if c.values[i] = labels[key.Name]; c.values[i] != "" {
			c.count++
			seen[c.values[i]] = true
		}
	}
	c.distinct = len(seen)
	return c
}

func (p *proposer) dropSparse() {
	p.columns = slices.DeleteFunc(p.columns, func(c *column) bool {
		switch {
		case c.Name == corev1.LabelHostname:
			return false
		case 2*c.count < len(p.nodes):
			p.note("label %s (%s) is left out: %d of %d nodes have it", c.Name, c.From, c.count, len(p.nodes))
			return true
		case c.distinct == 1 && c.Rank < zone:
			p.note("label %s (%s) is left out: it has one value", c.Name, c.From)
			return true
		}
		return false
	})
}

// dropAlike drops a label that groups the nodes identically to a preferred label. It also drops a label that has the same rank as a
// preferred label if neither of the two labels refines the other.
func (p *proposer) dropAlike() {
	var kept []*column
	for _, c := range p.columns {
		at := slices.IndexFunc(kept, func(k *column) bool { return c.alike(k) || c.Rank == k.Rank && !c.refines(k) && !k.refines(c) })
		switch {
		case at < 0:
			kept = append(kept, c)
		case c.alike(kept[at]):
			p.note("label %s (%s) is left out: it groups the nodes as %s does", c.Name, c.From, kept[at].Name)
		default:
			p.note("label %s (%s) is left out: it is at the level of %s but groups the nodes differently", c.Name, c.From, kept[at].Name)
		}
	}
	p.columns = kept
}

// alike reports whether two labels group the nodes identically. Labels with one value are alike only if they have the same rank. The
// hostname is alike only with the physical machine, because a rack may happen to have only one host today.
func (c *column) alike(other *column) bool {
	if max(c.Rank, other.Rank) == host && min(c.Rank, other.Rank) < machine {
		return false
	}
	if c.distinct == 1 && other.distinct == 1 && c.Rank != other.Rank {
		return false
	}
	return c.count == other.count && c.distinct == other.distinct && c.refines(other) && other.refines(c)
}

// refines reports whether each value of this label occurs with only one value of the other label.
func (c *column) refines(other *column) bool {
	in := map[string]string{}
	for i, value := range c.values {
		if value == "" || other.values[i] == "" {
			continue
		}
		if before, known := in[value]; known && before != other.values[i] {
			return false
		}
		in[value] = other.values[i]
	}
	return len(in) > 0
}

// order sorts the columns by rank. It swaps neighbours where the labels of the nodes show that their order is reversed.
func (p *proposer) order() {
	slices.SortStableFunc(p.columns, func(a, b *column) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.distinct, b.distinct))
	})
	for i := 1; i < len(p.columns); i++ {
		for j := i; j > 0; j-- {
			broad, narrow := p.columns[j-1], p.columns[j]
			if narrow.Name == corev1.LabelHostname || narrow.distinct < 2 || !broad.refines(narrow) || narrow.refines(broad) {
				break
			}
			p.note("label %s is placed above %s, because each value of the latter lies in one of the former", narrow.Name, broad.Name)
			p.columns[j-1], p.columns[j] = narrow, broad
		}
	}
	p.dropRedundant()
	used := map[string]int{}
	for _, c := range p.columns {
		if used[c.Domain]++; used[c.Domain] > 1 {
			c.Domain = fmt.Sprintf("%s-%d", c.Domain, used[c.Domain])
		}
	}
}

// dropRedundant drops one of two adjacent levels with the same domains; the preferred level stays.
func (p *proposer) dropRedundant() {
	for i := 1; i < len(p.columns); {
		levels := p.levels()
		above, here := p.columns[i-1], p.columns[i]
		domains := topology.ScanNodes(p.objects(), levels[:i+1], nil).Levels
		if here.Rank >= machine || domains[i].Domains < 2 || domains[i].Domains != domains[i-1].Domains ||
			domains[i].Nodes != domains[i-1].Nodes {
			i++
			continue
		}
		gone, stays := i, above
		if preference(here.Name) < preference(above.Name) {
			gone, stays = i-1, here
		}
		p.note("label %s (%s) is left out: it groups the nodes as %s does", p.columns[gone].Name, p.columns[gone].From, stays.Name)
		p.columns = slices.Delete(p.columns, gone, gone+1)
		i = max(1, i-1)
	}
}

// objects returns the nodes as API objects, for [topology.ScanNodes].
func (p *proposer) objects() []*corev1.Node {
	nodes := make([]*corev1.Node, len(p.nodes))
	for i, n := range p.nodes {
		nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	}
	return nodes
}

// levels returns the levels of the proposal, for the topology package.
func (p *proposer) levels() topology.Levels {
	out := make(topology.Levels, 0, len(p.columns))
	for _, c := range p.columns {
		out = append(out, topology.Level{Domain: c.Domain, Key: c.Name})
	}
	return out
}
