// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Refs returns the deployments.
func (r Overview) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Graphs))
	for _, g := range r.Graphs {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: g.Name})
	}
	return refs
}

// Text renders the report for a page. Long names may exceed the page's width. If the report has several graphs and more rows than the page,
// Text folds it.
func (r Overview) Text(p text.Page) string {
	sections := []string{r.graphsText(p, r.Graphs)}
	if !r.nothing {
		sections = append(sections, r.drawings(p)...)
	}
	whole := joined(append(sections, r.transferText(p), r.waitingText(p), r.notesText(p)))
	if r.folds && len(r.Graphs) > 1 && !p.Wide && p.Rows > 0 && strings.Count(whole, "\n") > p.Rows {
		return r.foldedText(p)
	}
	return whole
}

// Drawings renders only the trees.
func (r Overview) Drawings(p text.Page) string { return joined(r.drawings(p)) }

func (r Overview) drawings(p text.Page) []string {
	sections := make([]string, 0, len(r.Trees))
	for _, t := range r.Trees {
		sections = append(sections, r.treeText(p, t, shape{}))
	}
	return sections
}

// joined joins sections with empty lines.
func joined(sections []string) string {
	var b strings.Builder
	for _, s := range sections {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.TrimRight(s, "\n") + "\n")
	}
	return b.String()
}

// NameOf returns the name of a graph, with the namespace if the report's graphs are in several namespaces.
func (r *Overview) NameOf(namespace, name string) string {
	if slices.ContainsFunc(r.Graphs, func(g Deployment) bool { return g.Namespace != r.Graphs[0].Namespace }) {
		return namespace + "/" + name
	}
	return name
}

func (r Overview) graphsText(p text.Page, graphs []Deployment) string {
	if len(graphs) == 0 {
		return ""
	}
	several := slices.ContainsFunc(r.Graphs, func(g Deployment) bool { return g.Topology != r.Graphs[0].Topology })
	rows := [][]string{{"GRAPH", "READY", "TOPOLOGY", "DOMAIN", "CONSTRAINT"}}
	for _, g := range graphs {
		ready, domain, packed := p.Warn("False"), g.Domain, g.Constraints
		if g.Ready {
			ready = p.Good("True")
		}
		if domain == "" {
			domain = "-"
		}
		if len(packed) == 0 {
			packed = []string{"none"}
		}
		rows = append(rows, []string{r.NameOf(g.Namespace, g.Name), ready, cmp.Or(g.Topology, "-"), domain, packed[0]})
		for _, more := range packed[1:] {
			rows = append(rows, []string{"", "", "", "", more})
		}
	}
	if !several {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 2, 3)
		}
	}
	return p.Table(rows)
}

// treeText renders a tree with the columns to its right.
func (r Overview) treeText(p text.Page, t Tree, s shape) string {
	d := drawing{shape: s, prefix: func(Pod) string { return "" }}
	if len(r.Graphs) > 1 {
		d.prefix = func(p Pod) string { return r.NameOf(p.Namespace, p.Graph) + ": " }
	}
	root := t.Topology
	if root == "" {
		root = "cluster"
	}
	rows := d.rows(root, t.Cluster, r.Resource)
	if space := p.Space(rows, len(rows[0])-1); space > 0 {
		d.columns = space
		rows = d.rows(root, t.Cluster, r.Resource)
	}
	for i, row := range rows {
		rows[i][0] = paint(p, row[0])
	}
	if r.Resource == "" {
		return levelsLine(t) + p.Table(rows)
	}
	return levelsLine(t) + p.Table(rows, 1, 2)
}

// paint colours the states of nodes.
func paint(p text.Page, line string) string {
	for state, color := range map[string]func(string) string{
		string(topology.KindCordoned): p.Warn, string(topology.KindLeaving): p.Warn, string(topology.KindTaint) + " ": p.Warn,
		StateNotReady: p.Bad, StateGone: p.Bad,
	} {
		if i := strings.LastIndex(line, " ("+state); i >= 0 && strings.HasSuffix(line, ")") {
			return line[:i+1] + color(line[i+1:])
		}
	}
	return line
}

func levelsLine(t Tree) string {
	if t.Topology == "" {
		return ""
	}
	return fmt.Sprintf("%s %s: %s\n", cmp.Or(t.TopologyKind, grovev1alpha1.KindClusterTopology), t.Topology, strings.Join(t.Levels, " > "))
}

// maxWaiting is the maximum number of texts about the waiting pods of one graph.
const maxWaiting = 8

func (r Overview) waitingText(p text.Page) string {
	var lines []string
	for _, g := range r.Graphs {
		w := g.Waiting
		if w == nil {
			continue
		}
		pods := groupPods(w.Pods, func(Pod) string { return "" })
		if len(pods) > maxWaiting && !p.Wide {
			pods = append(pods[:maxWaiting], fmt.Sprintf("and %d more", len(pods)-maxWaiting))
		}
		head := r.NameOf(g.Namespace, g.Name)
		if len(pods) > 0 {
			head += ": " + strings.Join(pods, "; ")
		}
		message := w.Message
		if w.Reason != "" {
			message = p.Warn(w.Reason) + ": " + message
		}
		lines = append(lines, p.Wrap(head, "  "), p.Wrap("    "+message, "    "))
	}
	if lines == nil {
		return ""
	}
	return p.Head("WAITING") + "\n" + strings.Join(lines, "\n")
}

func (r Overview) notesText(p text.Page) string {
	lines := make([]string, 0, len(r.Notes))
	for _, note := range r.Notes {
		lines = append(lines, p.Wrap(note, "  "))
	}
	return strings.Join(lines, "\n")
}
