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

// rows returns the lines of the drawing with their cells. Without a counted resource, rows omits the columns of amounts.
func (d *drawing) rows(root string, cluster *Domain, resource string) [][]string {
	d.cells = nil
	tree := treeprint.NewWithRoot(root + d.addDomain(cluster))
	d.draw(tree, cluster, 1)
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

// unit returns the heading of the column of amounts.
func unit(resource string) string {
	if strings.HasSuffix(resource, "/gpu") {
		return "GPUS"
	}
	return resource
}

// drawing fills a tree and, in the same order, the cells to the right of the tree's lines.
type drawing struct {
	prefix func(Pod) string
	cells  [][]string
	// columns is the width at which lists of pod names are wrapped; 0: no wrapping.
	columns int
	shape
}

// shape bounds a drawing. The zero value draws everything.
type shape struct {
	// levels is the number of levels to draw, from the broadest; 0: all. Rows of the last level include everything below it.
	levels int
	// children is the number of children to draw for each domain; 0: all. One row sums up the other children.
	children int
}

// addDomain adds the rows of one domain with its pods. It returns one line break for each row after the first. The caller appends them to
// the domain's title, so that the tree has as many lines as the cells have rows.
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

func (d *drawing) draw(t treeprint.Tree, domain *Domain, level int) {
	drawn := domain.Children
	if d.children > 0 && len(drawn) > d.children {
		drawn = drawn[:d.children]
	}
	for _, child := range drawn {
		if level == d.levels && !child.Node {
			d.row(child.Amount, child.held())
			t.AddNode(child.Title())
			continue
		}
		below := d.addDomain(child)
		d.draw(t.AddBranch(child.Title()+below), child, level+1)
	}
	if rest := domain.Children[len(drawn):]; len(rest) > 0 {
		more := &Domain{Level: rest[0].Level, Children: rest}
		for _, child := range rest {
			more.Amount = more.Amount.add(child.Amount)
		}
		d.row(more.Amount, more.held())
		t.AddNode(text.Count(len(rest), "more "+more.Level))
	}
	for _, o := range domain.Others {
		d.row(o.Amount)
		t.AddNode(o.title(len(domain.Children) > 0))
	}
}

// held returns the content of a domain: "3 graphs, 24 pods".
func (d *Domain) held() string {
	graphs := map[[2]string]bool{}
	pods := d.visit(graphs)
	return text.Count(len(graphs), "graph") + ", " + text.Count(pods, "pod")
}

// visit adds the graphs of the pods at and below a domain to the given set, and returns the number of these pods.
func (d *Domain) visit(graphs map[[2]string]bool) int {
	pods := len(d.Pods)
	for _, p := range d.Pods {
		graphs[[2]string{p.Namespace, p.Graph}] = true
	}
	for _, child := range d.Children {
		pods += child.visit(graphs)
	}
	return pods
}

// Title returns the name, with the level before it unless the name begins with the level.
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

// title returns "3 other racks" or "2 hosts without a rack label".
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
