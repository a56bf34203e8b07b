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

// Page is the target of a report: a terminal, or a file.
type Page struct {
	// Columns at which lines are wrapped; 0 means [Columns].
	Columns int
	// Rows of the screen, for reports that are folded to this height; 0: unlimited.
	Rows int
	// Wide: nothing is wrapped, folded or omitted.
	Wide bool
	// Color: states and headings are coloured with ANSI escape codes (ECMA-48).
	Color bool
}

// narrowest is the smallest width for which text is wrapped. A narrower terminal wraps the lines itself.
const narrowest = 60

// lowest is the smallest screen height for which reports are folded. A lower terminal scrolls.
const lowest = 40

// PageOf returns the page of an output. A terminal has its own width, and colours unless NO_COLOR is set (no-color.org) or TERM is dumb;
// any other output has [Columns] and no colours.
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

// columns returns the width of the page; a wide page is unlimited.
func (p Page) columns() int {
	switch {
	case p.Wide:
		return 1 << 20
	case p.Columns <= 0:
		return Columns
	}
	return p.Columns
}

// Narrower returns a page for text that is indented by a number of columns.
func (p Page) Narrower(by int) Page {
	p.Columns = p.columns() - by
	return p
}

// Wrap breaks lines that are too long for the page. It breaks them between words; continuation lines start with indent.
func (p Page) Wrap(s, indent string) string { return wrap(s, indent, p.columns()) }

// colors matches the colour codes that Page writes.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// pageCodes are the numbers in the colour codes that Page writes: reset, bold, red, green and yellow.
var pageCodes = []string{"0", "1", "31", "32", "33"}

func (p Page) color(code, s string) string {
	if !p.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Good colours a state that is as expected.
func (p Page) Good(s string) string { return p.color("32", s) }

// Warn colours the state of something that waits.
func (p Page) Warn(s string) string { return p.color("33", s) }

// Bad colours a state that needs attention.
func (p Page) Bad(s string) string { return p.color("31", s) }

// Head renders a heading in bold.
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

// Table renders rows in columns with a gap of two spaces, and the first row in bold. right lists the indexes of the columns that are
// right-aligned. If the table is wider than the page, cells are wrapped between words, starting with the widest column. Cells of the first
// column are not wrapped.
func (p Page) Table(rows [][]string, right ...int) string {
	rows = breakCells(rows, p.columns())
	lines := strings.SplitAfterN(Table(rows, gap, right...), "\n", 2)
	return p.Head(strings.TrimSuffix(lines[0], "\n")) + "\n" + strings.Join(lines[1:], "")
}

// gap is the space between columns, and least the minimum width of a wrapped column.
const gap, least = 2, 12

// Space returns the width that remains for a column after the columns before it; 0 if none of the column's cells has to be wrapped.
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

// breakCells wraps the cells of a table that is wider than the page. columns is the width of the page.
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

// measure returns the width and the minimum width of each column. The minimum is at least the width of every word and of every coloured
// cell, because these are not broken.
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

// breakRow wraps the cells that are wider than their columns, and returns the row with the additional rows for the wrapped text.
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
