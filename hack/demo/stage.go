// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns that output is wrapped at.
const columns = 100

// stage is what the audience sees.
type stage struct {
	io.Writer
	styled bool
}

// newStage shows on a file, with bold type when that is a terminal.
func newStage(f *os.File) *stage {
	return &stage{Writer: f, styled: term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s *stage) style(code, text string) string {
	if !s.styled {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *stage) bold(text string) string { return s.style("1", text) }

// heading begins a scene.
func (s *stage) heading(text string) {
	line := "── " + text + " " + strings.Repeat("─", max(3, columns-width(text)-4))
	fmt.Fprintf(s, "\n%s\n\n", s.style("1;36", line))
}

// say is the narrator.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintln(s, s.style("3", wrap(fmt.Sprintf(format, args...), "")))
}

// show shows a command as it would be typed.
func (s *stage) show(command string) {
	fmt.Fprintln(s, s.bold("$ "+command))
}

// print shows what a command printed: tables that are too wide pulled together, sentences that are too long broken.
func (s *stage) print(output string) {
	blocks := strings.Split(strings.TrimRight(output, "\n"), "\n\n")
	for i, block := range blocks {
		if lines := strings.Split(block, "\n"); isTable(lines) {
			blocks[i] = strings.Join(squeeze(lines), "\n")
		} else {
			blocks[i] = wrap(block, "    ")
		}
	}
	fmt.Fprintln(s, strings.Join(blocks, "\n\n"))
}

// wrap breaks lines that are too long between words.
func wrap(text, indent string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if width(line) <= columns {
			continue
		}
		var broken []string
		at := ""
		for _, word := range strings.Fields(line) {
			switch {
			case at == "":
				at = word
			case width(at)+1+width(word) > columns:
				broken, at = append(broken, at), indent+word
			default:
				at += " " + word
			}
		}
		lines[i] = strings.Join(append(broken, at), "\n")
	}
	return strings.Join(lines, "\n")
}

func width(text string) int { return utf8.RuneCountInString(text) }

// heads are the columns of a kubectl table, by their headings.
var heads = regexp.MustCompile(`[A-Z]+( [A-Z]+)*\s*`)

// isTable: kubectl's tables begin with a line of headings.
func isTable(lines []string) bool {
	return len(lines) > 1 && strings.TrimSpace(heads.ReplaceAllString(lines[0], "")) == ""
}

// squeeze takes spaces from between the columns of a table of kubectl's until it fits.
func squeeze(lines []string) []string {
	widest := 0
	for _, line := range lines {
		widest = max(widest, width(line))
	}
	if widest <= columns {
		return lines
	}
	gap := 2
	columnsAt := heads.FindAllStringIndex(lines[0], -1)
	if widest-(len(columnsAt)-1) > columns {
		gap = 1
	}
	out := make([]string, len(lines))
	for _, at := range columnsAt {
		cells := make([]string, len(lines))
		cellWidth := 0
		for i, line := range lines {
			cells[i] = strings.TrimSpace(line[min(at[0], len(line)):min(at[1], len(line))])
			if at[1] == len(lines[0]) { // the last column is as long as it likes
				cells[i] = strings.TrimSpace(line[min(at[0], len(line)):])
			}
			cellWidth = max(cellWidth, len(cells[i]))
		}
		for i, cell := range cells {
			out[i] += cell + strings.Repeat(" ", cellWidth-len(cell)+gap)
		}
	}
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out
}
