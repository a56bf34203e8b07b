// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xlab/treeprint"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Refs are the deployments.
func (r Overview) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Graphs))
	for _, g := range r.Graphs {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: g.Name})
	}
	return refs
}

// Text renders the report for a page; long names may need more.
func (r Overview) Text(p text.Page) string {
	sections := []string{r.graphsText(p)}
	if !r.nothing {
		sections = append(sections, r.drawings(p)...)
	}
	return joined(append(sections, r.transferText(p), r.waitingText(p), r.notesText(p)))
}

// Drawings renders the trees alone.
func (r Overview) Drawings(p text.Page) string { return joined(r.drawings(p)) }

func (r Overview) drawings(p text.Page) []string {
	sections := make([]string, 0, len(r.Trees))
	for _, t := range r.Trees {
		sections = append(sections, r.treeText(p, t))
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

// NameOf is what a graph is called: with its namespace when graphs are in more than one.
func (r *Overview) NameOf(namespace, name string) string {
	if slices.ContainsFunc(r.Graphs, func(g Deployment) bool { return g.Namespace != r.Graphs[0].Namespace }) {
		return namespace + "/" + name
	}
	return name
}

func (r Overview) graphsText(p text.Page) string {
	if len(r.Graphs) == 0 {
		return ""
	}
	several := slices.ContainsFunc(r.Graphs, func(g Deployment) bool { return g.Topology != r.Graphs[0].Topology })
	rows := [][]string{{"GRAPH", "READY", "TOPOLOGY", "DOMAIN", "CONSTRAINT"}}
	for _, g := range r.Graphs {
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

// treeText is the drawing with columns to its right.
func (r Overview) treeText(p text.Page, t Tree) string {
	d := drawing{prefix: func(Pod) string { return "" }}
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

// rows are the lines of the drawing with their cells. Without a resource there are no amounts.
func (d *drawing) rows(root string, cluster *Domain, resource string) [][]string {
	d.cells = nil
	tree := treeprint.NewWithRoot(root + d.addDomain(cluster))
	d.draw(tree, cluster)
	rows := [][]string{{"DOMAIN", unit(resource), "FREE", "PODS"}}
	for i, line := range strings.Split(strings.TrimRight(tree.String(), "\n"), "\n") {
		rows = append(rows, append([]string{line}, d.cells[i]...))
	}
	if resource == "" {
		for i, row := range rows {
			rows[i] = append(row[:1], row[3:]...)
		}
	}
	return rows
}

func levelsLine(t Tree) string {
	if t.Topology == "" {
		return ""
	}
	return fmt.Sprintf("%s %s: %s\n", cmp.Or(t.TopologyKind, grovev1alpha1.KindClusterTopology), t.Topology, strings.Join(t.Levels, " > "))
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
	// columns that the names of pods are broken at; 0: nowhere.
	columns int
}

// addDomain adds the rows of one domain, with its pods, and returns the empty lines that the drawing needs alongside the further rows.
func (d *drawing) addDomain(domain *Domain) string {
	pods := groupPods(domain.Pods, d.prefix)
	if d.columns > 0 {
		pods = strings.Split(text.Page{Columns: d.columns}.Wrap(strings.Join(pods, "\n"), "  "), "\n")
	}
	if len(pods) == 0 {
		d.row(domain.Amount)
	}
	for i, p := range pods {
		if i == 0 {
			d.row(domain.Amount, p)
		} else {
			d.row(nil, p)
		}
	}
	return strings.Repeat("\n", max(0, len(pods)-1))
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
		below := d.addDomain(child)
		d.draw(t.AddBranch(child.Title()+below), child)
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
