// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// folded is the last line of a folded report.
const folded = "Folded to fit a screen. -o wide shows everything; a NAME or -n NAMESPACE shows less."

// The rows of the page are divided by these numbers to get the rows of each section of a folded report. The trees get the remaining rows.
const (
	graphsPart  = 4
	waitingPart = 6
	notesPart   = 10
)

// leastTree is the minimum number of rows of a tree.
const leastTree = 8

// foldedText renders the report in the rows of the page: graphs that are not ready come first, trees are drawn down to a level that fits,
// and waiting graphs are grouped by reason.
func (r Overview) foldedText(p text.Page) string {
	graphs := r.fewGraphs(p, p.Rows/graphsPart)
	below := []string{
		clip(r.transferText(p), p.Rows/notesPart), clip(r.waitingReasons(p), p.Rows/waitingPart), clip(r.notesText(p), p.Rows/notesPart),
		p.Wrap(folded, "  "),
	}
	taken := strings.Count(joined(append([]string{graphs}, below...)), "\n")
	sections := []string{graphs}
	if !r.nothing {
		for _, t := range r.Trees {
			sections = append(sections, r.fittingTree(p, t, max(leastTree, (p.Rows-taken)/len(r.Trees)-1)))
		}
	}
	return joined(append(sections, below...))
}

// fewGraphs renders the table of graphs in a number of rows, with graphs that are not ready first.
func (r Overview) fewGraphs(p text.Page, rows int) string {
	if whole := r.graphsText(p, r.Graphs); strings.Count(whole, "\n") <= rows {
		return whole
	}
	ordered := slices.SortedStableFunc(slices.Values(r.Graphs), func(a, b Deployment) int { return cmp.Compare(rank(a), rank(b)) })
	for shown := min(rows, len(ordered)); ; shown-- {
		ready := 0
		for _, g := range ordered[shown:] {
			ready += rank(g)
		}
		more := fmt.Sprintf("%d more, %d of them ready\n", len(ordered)-shown, ready)
		if table := r.graphsText(p, ordered[:shown]) + more; shown <= 1 || strings.Count(table, "\n") <= rows {
			return table
		}
	}
}

// rank returns 1 for a graph that is ready, else 0.
func rank(g Deployment) int {
	if g.Ready {
		return 1
	}
	return 0
}

// fittingTree draws a tree down to the narrowest level that fits into the rows. If not even the broadest level fits, it draws as many
// domains of this level as fit.
func (r Overview) fittingTree(p text.Page, t Tree, rows int) string {
	for levels := len(t.Levels); levels > 0; levels-- {
		if drawn := r.treeText(p, t, shape{levels: levels}); strings.Count(drawn, "\n") <= rows {
			return drawn
		}
	}
	around := 4 + len(t.Cluster.Others) // the levels, the heading, the cluster, and the rows of other domains
	return r.treeText(p, t, shape{levels: 1, children: max(1, rows-around)})
}

// waitingReasons lists the waiting graphs by reason, the most frequent reason first.
func (r Overview) waitingReasons(p text.Page) string {
	byReason := map[string][]string{}
	for _, g := range r.Graphs {
		if g.Waiting != nil {
			reason := cmp.Or(g.Waiting.Reason, g.Waiting.Message)
			byReason[reason] = append(byReason[reason], r.NameOf(g.Namespace, g.Name))
		}
	}
	if len(byReason) == 0 {
		return ""
	}
	reasons := slices.SortedFunc(maps.Keys(byReason), func(a, b string) int {
		return cmp.Or(-cmp.Compare(len(byReason[a]), len(byReason[b])), cmp.Compare(a, b))
	})
	lines := []string{p.Head("WAITING") + " (kubectl trellis queue lists all, explain NAME tells a cause)"}
	for _, reason := range reasons {
		names := byReason[reason]
		lines = append(lines, p.Wrap(fmt.Sprintf("%s (%d): %s", p.Warn(reason), len(names), limit.Join(names, len(names), fewNames, ", ")), "  "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// clip shortens a section to a number of lines.
func clip(section string, rows int) string {
	lines := strings.Split(strings.TrimRight(section, "\n"), "\n")
	if len(lines) <= rows {
		return section
	}
	return strings.Join(lines[:rows-1], "\n") + fmt.Sprintf("\nand %s\n", text.Count(len(lines)-rows+1, "further line"))
}
