// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxNames is the maximum number of nodes that a note lists.
const maxNames = 5

// placeholders are label values that mean an unknown location.
var placeholders = []string{"none", "unknown", "null", "n/a", "-", "undefined", "not-available"}

// scan counts the domains, and adds notes about missing labels and inconsistencies.
func (p *proposer) scan() {
	s := topology.ScanNodes(p.objects(), p.levels(), nil)
	for i, level := range s.Levels {
		c := p.columns[i]
		p.out.Levels = append(p.out.Levels, Level{Domain: c.Domain, Key: c.Name, From: c.From, Domains: level.Domains, Nodes: level.Nodes})
		if level.MissingLabel > 0 {
			p.note("%d of %d nodes lack label %s of level '%s' (%s): they are in the levels above only",
				level.MissingLabel, s.Nodes, c.Name, c.Domain, some(level.MissingNodes, level.MissingLabel))
		}
		p.placeholder(c)
		if i > 0 {
			p.straddling(p.columns[i-1], c)
		}
	}
	for _, d := range s.Duplicates {
		p.note("hostname %q is on nodes %s: correct the label of all but one", d.Value, some(d.Nodes, d.Count))
	}
	for _, o := range FindOmitted(p.labels, p.levels()) {
		p.note("%s", o)
	}
	if !slices.ContainsFunc(p.columns, func(c *column) bool { return c.Name != corev1.LabelHostname }) {
		p.note("no node has a label whose place in the network is known; label the nodes, as in: kubectl label node NODE " +
			"topology.trellis.dev/rack=rack-0")
	}
}

// placeholder adds notes about placeholder values, which would otherwise become domains.
func (p *proposer) placeholder(c *column) {
	for _, word := range placeholders {
		var names []string
		for i, value := range c.values {
			if strings.EqualFold(value, word) {
				names = append(names, p.nodes[i].Name)
			}
		}
		if len(names) > 0 {
			p.note("%d nodes have the value %q of label %s, which would be a %s of its own (%s)", len(names), word, c.Name, c.Domain,
				some(names, len(names)))
		}
	}
}

// straddling adds a note about values of a unique label that occur in several domains of the level above.
func (p *proposer) straddling(above, c *column) {
	if !c.Unique || c.Name == corev1.LabelHostname {
		return
	}
	in := map[string]map[string]bool{}
	for i, value := range c.values {
		if value != "" && above.values[i] != "" {
			if in[value] == nil {
				in[value] = map[string]bool{}
			}
			in[value][above.values[i]] = true
		}
	}
	var examples []string
	for _, value := range slices.Sorted(maps.Keys(in)) {
		if len(in[value]) > 1 {
			examples = append(examples, fmt.Sprintf("%s in %s", value, strings.Join(slices.Sorted(maps.Keys(in[value])), " and ")))
		}
	}
	if len(examples) > 0 {
		p.note("%d of %d values of label %s lie in several domains of level '%s' (%s), each part of which is a %s of its own",
			len(examples), len(in), c.Name, above.Domain, some(examples, len(examples)), c.Domain)
	}
}

// some joins the first names and counts the others. total is the number of all names; the given list may be shorter.
func some(names []string, total int) string {
	return limit.Join(names, total, maxNames, ", ")
}
