// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// stage prints the output of the demo.
type stage struct {
	io.Writer
	styled bool
	// progress reports the progress of long work.
	progress progress.Func
}

// newStage prints to a file, with styles when the file is a terminal.
func newStage(f *os.File) *stage {
	return &stage{Writer: f, progress: progress.To(f), styled: term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb"}
}

func (s *stage) style(code, words string) string {
	if !s.styled {
		return words
	}
	return "\x1b[" + code + "m" + words + "\x1b[0m"
}

func (s *stage) bold(words string) string { return s.style("1", words) }

// heading prints the heading of a step.
func (s *stage) heading(title string) {
	line := "── " + title + " " + strings.Repeat("─", max(3, text.Columns-text.Width(title)-4))
	fmt.Fprintf(s, "\n%s\n\n", s.style("1;36", line))
}

// say prints an explanation.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintln(s, s.style("3", text.Wrap(fmt.Sprintf(format, args...), "")))
}

// show prints a command with a prompt.
func (s *stage) show(command string) {
	fmt.Fprintln(s, s.bold("$ "+command))
}

// print prints the output of a command. It narrows tables that are too wide and wraps lines of text that are too long.
func (s *stage) print(output string) {
	blocks := strings.Split(strings.TrimRight(output, "\n"), "\n\n")
	for i, block := range blocks {
		if lines := strings.Split(block, "\n"); isTable(lines) {
			blocks[i] = strings.Join(squeeze(lines), "\n")
		} else {
			blocks[i] = text.Wrap(block, "    ")
		}
	}
	fmt.Fprintln(s, strings.Join(blocks, "\n\n"))
}

// heads matches the column headings of a kubectl table.
var heads = regexp.MustCompile(`[A-Z]+( [A-Z]+)*\s*`)

// isTable reports whether lines are a table of kubectl, which begins with a line of column headings.
func isTable(lines []string) bool {
	return len(lines) > 1 && strings.TrimSpace(heads.ReplaceAllString(lines[0], "")) == ""
}

// squeeze narrows the gaps between the columns of a kubectl table until the table fits.
func squeeze(table []string) []string {
	widest := 0
	for _, line := range table {
		widest = max(widest, text.Width(line))
	}
	if widest <= text.Columns {
		return table
	}
	starts := heads.FindAllStringIndex(table[0], -1)
	gap := 2 // kubectl has 3 spaces between columns
	if widest-(len(starts)-1) > text.Columns {
		gap = 1
	}
	rows := make([][]string, len(table))
	for i, line := range table {
		for j, at := range starts {
			end := at[1]
			if j == len(starts)-1 {
				end = len(line) // the last column has no limit
			}
			start := min(at[0], len(line))
			rows[i] = append(rows[i], strings.TrimSpace(line[start:max(start, min(end, len(line)))]))
		}
	}
	return strings.Split(strings.TrimRight(text.Table(rows, gap), "\n"), "\n")
}
