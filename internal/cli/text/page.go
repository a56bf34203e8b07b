// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Page is what a report is set on: a terminal, or a file.
type Page struct {
	// Columns that lines are broken at; 0 means [Columns].
	Columns int
	// Rows that fit a screen, for reports that fold; 0: any number.
	Rows int
	// Wide: nothing is broken, folded or left out.
	Wide bool
	// Color: states and headings are coloured, by the codes of ECMA-48.
	Color bool
}

// narrowest terminal that text is set for. On a smaller one the terminal breaks the lines.
const narrowest = 60

// lowest screen that reports are folded for. On a smaller one the terminal scrolls.
const lowest = 40

// PageOf describes what a report is written to. A terminal tells its width, and is coloured unless NO_COLOR is set (no-color.org) or TERM
// is dumb; anything else has [Columns] and no colour.
func PageOf(out any) Page {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return Page{Columns: Columns, Rows: Rows}
	}
	width, height, err := term.GetSize(int(f.Fd())) //nolint:gosec // as above
	if err != nil || width <= 0 {
		width = Columns
	}
	if err != nil || height <= 0 {
		height = Rows
	}
	return Page{Columns: max(width, narrowest), Rows: max(height, lowest), Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// columns that are there to fill; a wide page has no end.
func (p Page) columns() int {
	switch {
	case p.Wide:
		return 1 << 20
	case p.Columns <= 0:
		return Columns
	}
	return p.Columns
}

// Narrower is a page for text that is indented by so many columns.
func (p Page) Narrower(by int) Page {
	p.Columns = p.columns() - by
	return p
}

// Wrap breaks every line that is too long for the page between words; what follows a break begins with indent.
func (p Page) Wrap(s, indent string) string { return wrap(s, indent, p.columns()) }

// colors are the codes that Page writes.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// pageCodes are those codes: the end of all, bold, red, green and yellow.
var pageCodes = []string{"0", "1", "31", "32", "33"}

func (p Page) color(code, s string) string {
	if !p.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Good is the colour of what is correct, Warn of what waits, Bad of what needs attention.
func (p Page) Good(s string) string { return p.color("32", s) }

// Warn colours what waits.
func (p Page) Warn(s string) string { return p.color("33", s) }

// Bad colours what someone has to look at.
func (p Page) Bad(s string) string { return p.color("31", s) }

// Head sets a heading in bold type.
func (p Page) Head(s string) string { return p.color("1", s) }

// Fits reports whether no line of a text is wider than the page.
func (p Page) Fits(s string) bool {
	for line := range strings.Lines(s) {
		if Width(strings.TrimSuffix(line, "\n")) > p.columns() {
			return false
		}
	}
	return true
}

// Table sets rows in columns, the first one in bold type, with a gap of two spaces, right-aligned where asked for. When the table is wider
// than the page, cells are broken between words, those of the widest column first; those of the first column stay whole.
func (p Page) Table(rows [][]string, right ...int) string {
	rows = breakCells(rows, p.columns())
	lines := strings.SplitAfterN(Table(rows, gap, right...), "\n", 2)
	return p.Head(strings.TrimSuffix(lines[0], "\n")) + "\n" + strings.Join(lines[1:], "")
}

// Between columns is a gap. No column is broken to less than least.
const gap, least = 2, 12

// Space is how wide a column of a table may be, after those before it; 0 when none of its cells has to be broken.
func (p Page) Space(rows [][]string, column int) int {
	space := p.columns()
	for i := range column {
		widest := 0
		for _, row := range rows {
			if i < len(row) {
				widest = max(widest, Width(row[i]))
			}
		}
		space -= widest + gap
	}
	fits := func(row []string) bool { return len(row) <= column || Width(row[column]) <= space }
	if column == 0 || !slices.ContainsFunc(rows, func(row []string) bool { return !fits(row) }) {
		return 0
	}
	return max(space, least)
}

// breakCells breaks the cells of a table that is wider than so many columns.
func breakCells(rows [][]string, columns int) [][]string {
	widths, floors := measure(rows)
	over := gap*(len(widths)-1) - columns
	for _, w := range widths {
		over += w
	}
	if over <= 0 {
		return rows
	}
	for ; over > 0; over-- {
		widest := -1
		for i := 1; i < len(widths); i++ {
			if widths[i] > floors[i] && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // words and names are not broken
		}
		widths[widest]--
	}
	out := make([][]string, 0, len(rows))
	for _, row := range rows {
		out = append(out, breakRow(row, widths)...)
	}
	return out
}

// measure returns how wide each column is, and how narrow it may get: a word is not broken, and neither is a cell in colour.
func measure(rows [][]string) (widths, floors []int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, floors = append(widths, 0), append(floors, least)
			}
			widths[i] = max(widths[i], Width(cell))
			words := strings.Fields(cell)
			if colors.MatchString(cell) {
				words = []string{cell}
			}
			for _, word := range words {
				floors[i] = max(floors[i], Width(word))
			}
		}
	}
	return widths, floors
}

// breakRow puts what does not fit into a column on rows of its own.
func breakRow(row []string, widths []int) [][]string {
	out := [][]string{slices.Clone(row)}
	for i, cell := range row {
		if i == 0 || Width(cell) <= widths[i] {
			continue
		}
		for j, part := range strings.Split(wrap(cell, "", widths[i]), "\n") {
			if j == len(out) {
				out = append(out, make([]string, len(row)))
			}
			out[j][i] = part
		}
	}
	return out
}
