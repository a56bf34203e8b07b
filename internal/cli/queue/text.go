// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// Refs returns the waiting deployments.
func (r Queue) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Waiting))
	for _, w := range r.Waiting {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: w.Name})
	}
	return refs
}

// Text renders a table with one line per deployment. A wide page also shows the messages.
func (r Queue) Text(p text.Page) string {
	var b strings.Builder
	if len(r.Waiting) == 0 {
		b.WriteString(p.Wrap(r.nothing(), "  ") + "\n")
	} else {
		b.WriteString(r.table(p) + "\n" + p.Wrap(r.sum(p), "  ") + "\n")
	}
	if len(r.Missing) > 0 {
		b.WriteString("\n" + r.missingText(p))
	}
	for _, note := range r.Notes {
		b.WriteString("\n" + p.Wrap(note, "  ") + "\n")
	}
	return b.String()
}

// nothing returns the text for an empty list. It also reports how many deployments wait in other namespaces.
func (r Queue) nothing() string {
	said := "Nothing waits."
	switch {
	case r.onlyMissing:
		said = fmt.Sprintf("Namespace %s does not exist.", r.only)
	case len(r.Missing) > 0:
		said = "No deployment reports that it waits."
	case r.only != "":
		said = fmt.Sprintf("Nothing waits in namespace %s.", r.only)
	}
	switch r.Elsewhere {
	case 0:
		return said
	case 1:
		return said + " 1 deployment waits in another namespace; -A shows it."
	}
	return fmt.Sprintf("%s %d deployments wait in other namespaces; -A shows them.", said, r.Elsewhere)
}

// priorityColumn is the index of the priority column, which is omitted if the table is too wide for the page.
const priorityColumn = 2

func (r Queue) table(p text.Page) string {
	rows := [][]string{{"#", "GRAPH", "PRIORITY", "GPUS", "WAITING", "REASON"}}
	if p.Wide {
		rows[0] = append(rows[0], "MESSAGE")
	}
	for _, w := range r.Waiting {
		row := []string{
			w.position(), w.Namespace + "/" + w.Name, strconv.Itoa(int(w.Priority)), w.cell(),
			duration.HumanDuration(max(r.now.Sub(w.Since.Time), 0)), p.Warn(w.Reason),
		}
		if p.Wide {
			row = append(row, w.Message)
		}
		rows = append(rows, row)
	}
	if table := p.Table(rows, 0, priorityColumn, priorityColumn+1); p.Fits(table) {
		return table
	}
	for i := range rows { // the order implies the priority
		rows[i] = slices.Delete(rows[i], priorityColumn, priorityColumn+1)
	}
	return p.Table(rows, 0, priorityColumn)
}

// sum renders how many deployments and GPUs wait, and the command that explains why.
func (r Queue) sum(p text.Page) string {
	var gpus int64
	atLeast := ""
	for _, w := range r.Waiting {
		if w.GPUs == nil {
			atLeast = "at least "
			continue
		}
		gpus += w.GPUs.Waiting
	}
	verb := "wait"
	if len(r.Waiting) == 1 {
		verb = "waits"
	}
	said := fmt.Sprintf("%s %s for %s%s.", text.Count(len(r.Waiting), "deployment"), verb, atLeast, text.Count(int(gpus), "GPU"))
	if p.Wide {
		return said
	}
	return said + " kubectl trellis explain NAME -n NAMESPACE tells the cause; -o wide adds the messages."
}

// position renders the position.
func (w *Entry) position() string {
	if w.Position == 0 {
		return "-"
	}
	return strconv.Itoa(w.Position)
}
