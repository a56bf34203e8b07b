// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strings"
	"unicode/utf8"
)

// width that text is wrapped at.
const width = 100

// table sets rows in columns, right-aligned where asked for. Missing cells are empty.
func table(rows [][]string, right map[int]bool) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// wrap breaks a text between words; every line but the first begins with indent.
func wrap(text, indent string) []string {
	var lines []string
	start := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := start
	for _, word := range strings.Fields(text) {
		switch {
		case strings.TrimSpace(line) == "":
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), indent+word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

func wrapAll(texts []string) []string {
	var lines []string
	for _, t := range texts {
		lines = append(lines, wrap(t, "  ")...)
	}
	return lines
}
