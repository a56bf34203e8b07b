// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text formats text for a terminal: sentences wrapped between words, rows in columns.
package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Columns at which text is wrapped if the width of the terminal is unknown.
const Columns = 100

// Rows of a screen if the height of the terminal is unknown.
const Rows = 50

// Width returns the width of a text on a terminal, for characters of width one. Colour codes have no width.
func Width(s string) int { return utf8.RuneCountInString(colors.ReplaceAllString(s, "")) }

// Wrap breaks every line of more than [Columns] between words; continuation lines start with indent.
func Wrap(s, indent string) string { return wrap(s, indent, Columns) }

// spacedWords matches the words of a line, each with the preceding spaces, because these spaces may align the word.
var spacedWords = regexp.MustCompile(`\s*\S+`)

func wrap(s, indent string, columns int) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if Width(line) <= columns {
			continue
		}
		at := ""
		var broken []string
		for _, spaced := range spacedWords.FindAllString(line, -1) {
			if at != "" && Width(at)+Width(spaced) > columns {
				broken, at = append(broken, at), indent+strings.TrimSpace(spaced)
			} else {
				at += spaced
			}
		}
		lines[i] = strings.Join(append(broken, at), "\n")
	}
	return strings.Join(lines, "\n")
}

// Table renders rows in columns with a gap. right lists the indexes of the columns that are right-aligned. Missing cells are empty.
func Table(rows [][]string, gap int, right ...int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	aligned := make(map[int]bool, len(right))
	for _, i := range right {
		aligned[i] = true
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-Width(cell))
			if aligned[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			line += cell + strings.Repeat(" ", gap)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Count returns "1 replica" or "3 replicas".
func Count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Ranges returns "0..2,5" for ascending numbers.
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		first := numbers[i]
		last := first
		for i++; i < len(numbers) && numbers[i] <= last+1; i++ {
			last = numbers[i]
		}
		switch last - first {
		case 0:
			parts = append(parts, strconv.Itoa(first))
		case 1:
			parts = append(parts, fmt.Sprintf("%d,%d", first, last))
		default:
			parts = append(parts, fmt.Sprintf("%d..%d", first, last))
		}
	}
	return strings.Join(parts, ",")
}
