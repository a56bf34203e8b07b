// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/xlab/treeprint"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// Text renders the report for a terminal of 100 columns; long names may need more.
func (r Report) Text() string {
	name := r.naming()
	sections := append([]string{r.graphsText(name)}, r.drawings(name)...)
	return joined(append(sections, r.waitingText(name), r.notesText()))
}

// Drawings renders the trees alone.
func (r Report) Drawings() string { return joined(r.drawings(r.naming())) }

func (r Report) drawings(name func(string, string) string) []string {
	sections := make([]string, 0, len(r.Trees))
	for _, t := range r.Trees {
		sections = append(sections, r.treeText(t, name))
	}
	return sections
}

// joined puts an empty line between sections.
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

// naming returns how graphs are called: with the namespace when there is more than one.
func (r Report) naming() func(namespace, name string) string {
	for _, g := range r.Graphs {
		if g.Namespace != r.Graphs[0].Namespace {
			return func(namespace, name string) string { return namespace + "/" + name }
		}
	}
	return func(_, name string) string { return name }
}

func (r Report) graphsText(name func(string, string) string) string {
	if len(r.Graphs) == 0 {
		return ""
	}
	rows := [][]string{{"GRAPH", "CONSTRAINT", "DOMAIN", "READY"}}
	for _, g := range r.Graphs {
		ready, domain, packed := "False", g.Domain, g.Constraints
		if g.Ready {
			ready = "True"
		}
		if domain == "" {
			domain = "-"
		}
		if len(packed) == 0 {
			packed = []string{"none"}
		}
		rows = append(rows, []string{name(g.Namespace, g.Name), packed[0], domain, ready})
		for _, more := range packed[1:] {
			rows = append(rows, []string{"", more})
		}
	}
	return text.Table(rows, 2)
}

// treeText is the drawing with columns to its right.
func (r Report) treeText(t Tree, name func(string, string) string) string {
	d := drawing{prefix: func(Pod) string { return "" }}
	if len(r.Graphs) > 1 {
		d.prefix = func(p Pod) string { return name(p.Namespace, p.Graph) + ": " }
	}
	root := t.Topology
	if root == "" {
		root = "cluster"
	}
	d.row(t.Cluster.Amount)
	tree := treeprint.NewWithRoot(root)
	d.draw(tree, t.Cluster)
	rows := [][]string{{"DOMAIN", unit(r.Resource), "FREE", "PODS"}}
	for i, line := range strings.Split(strings.TrimRight(tree.String(), "\n"), "\n") {
		rows = append(rows, append([]string{line}, d.cells[i]...))
	}
	if r.Resource == "" {
		for i, row := range rows {
			rows[i] = append(row[:1], row[3:]...)
		}
		return levelsLine(t) + text.Table(rows, 2)
	}
	return levelsLine(t) + text.Table(rows, 2, 1, 2)
}

func levelsLine(t Tree) string {
	if t.Topology == "" {
		return ""
	}
	return fmt.Sprintf("ClusterTopology %s: %s\n", t.Topology, strings.Join(t.Levels, " > "))
}

// unit heads the column of amounts.
func unit(resource string) string {
	if strings.HasSuffix(resource, "/gpu") {
		return "GPUS"
	}
	return resource
}

// drawing fills a tree, and in the same order the cells that stand to the right of its lines.
type drawing struct {
	prefix func(Pod) string
	cells  [][]string
}

// row adds the cells of one line.
func (d *drawing) row(a *Amount, pods ...string) {
	used, free := "", ""
	if a != nil {
		used, free = fmt.Sprintf("%d/%d", a.Used, a.Total), strconv.FormatInt(a.Free, 10)
	}
	d.cells = append(d.cells, append([]string{used, free}, pods...))
}

func (d *drawing) draw(t treeprint.Tree, domain *Domain) {
	for _, child := range domain.Children {
		pods := groupPods(child.Pods, d.prefix)
		if len(pods) == 0 {
			d.row(child.Amount)
		}
		for i, p := range pods {
			if i == 0 {
				d.row(child.Amount, p)
			} else {
				d.row(nil, p)
			}
		}
		// Lines of one node that hold further pods are empty lines of the drawing.
		d.draw(t.AddBranch(child.Title()+strings.Repeat("\n", max(0, len(pods)-1))), child)
	}
	for _, o := range domain.Others {
		d.row(o.Amount)
		t.AddNode(o.title(len(domain.Children) > 0))
	}
}

// Title is the value, with the level before it unless the value says it itself.
func (d *Domain) Title() string {
	switch {
	case d.Node && d.State != "":
		return fmt.Sprintf("%s (%s)", d.Name, d.State)
	case d.Name == "" && d.State == stateUnknown:
		return fmt.Sprintf("(%s unknown)", d.Level)
	case d.Name == "":
		return fmt.Sprintf("(no %s label)", d.Level)
	case d.Node || strings.HasPrefix(d.Name, d.Level):
		return d.Name
	}
	return d.Level + " " + d.Name
}

// title is "3 other racks" or "2 hosts without a rack label".
func (o Others) title(some bool) string {
	level := o.Level
	if o.Count != 1 {
		level += "s"
	}
	switch {
	case o.Unlabeled != "":
		return fmt.Sprintf("%d %s without a %s label", o.Count, level, o.Unlabeled)
	case some:
		return fmt.Sprintf("%d other %s", o.Count, level)
	}
	return fmt.Sprintf("%d %s", o.Count, level)
}

// maxWaiting bounds how many texts about waiting pods one graph gets.
const maxWaiting = 8

func (r Report) waitingText(name func(string, string) string) string {
	var lines []string
	for _, g := range r.Graphs {
		w := g.Waiting
		if w == nil {
			continue
		}
		pods := groupPods(w.Pods, func(Pod) string { return "" })
		if len(pods) > maxWaiting {
			pods = append(pods[:maxWaiting], fmt.Sprintf("and %d more", len(pods)-maxWaiting))
		}
		head := name(g.Namespace, g.Name)
		if len(pods) > 0 {
			head += ": " + strings.Join(pods, "; ")
		}
		message := w.Message
		if w.Reason != "" {
			message = w.Reason + ": " + message
		}
		lines = append(lines, text.Wrap(head, "  "), text.Wrap("    "+message, "    "))
	}
	if lines == nil {
		return ""
	}
	return "WAITING\n" + strings.Join(lines, "\n")
}

func (r Report) notesText() string {
	lines := make([]string, 0, len(r.Notes))
	for _, note := range r.Notes {
		lines = append(lines, text.Wrap(note, "  "))
	}
	return strings.Join(lines, "\n")
}
