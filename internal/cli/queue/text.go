// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// Refs are the deployments that wait.
func (r Queue) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Waiting))
	for _, w := range r.Waiting {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: w.Name})
	}
	return refs
}

// Text is a table. Each row is followed by why it waits; on a wide page that is a column.
func (r Queue) Text(p text.Page) string {
	var b strings.Builder
	if len(r.Waiting) == 0 {
		b.WriteString(p.Wrap(r.nothing(), "  ") + "\n")
	} else {
		r.table(&b, p)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\n" + r.missingText(p))
	}
	for _, note := range r.Notes {
		b.WriteString("\n" + p.Wrap(note, "  ") + "\n")
	}
	return b.String()
}

// nothing states that nothing waits, and where something does.
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

func (r Queue) table(b *strings.Builder, p text.Page) {
	rows := [][]string{{"#", "GRAPH", "PRIORITY", "WAITING", "REASON"}}
	if p.Wide {
		rows[0] = append(rows[0], "MESSAGE")
	}
	for _, w := range r.Waiting {
		row := []string{
			w.position(), w.Namespace + "/" + w.Name, strconv.Itoa(int(w.Priority)),
			duration.HumanDuration(max(r.now.Sub(w.Since.Time), 0)), p.Warn(w.Reason),
		}
		if p.Wide {
			row = append(row, w.Message)
		}
		rows = append(rows, row)
	}
	if p.Wide {
		b.WriteString(p.Table(rows, 0, 2))
		return
	}
	for i, row := range strings.Split(strings.TrimSuffix(text.Table(rows, 2, 0, 2), "\n"), "\n") {
		if i == 0 {
			b.WriteString(p.Head(row) + "\n")
			continue
		}
		b.WriteString(row + "\n" + p.Wrap("    "+r.Waiting[i-1].Message, "    ") + "\n")
	}
}

// position as it is printed.
func (w *Entry) position() string {
	if w.Position == 0 {
		return "-"
	}
	return strconv.Itoa(w.Position)
}
