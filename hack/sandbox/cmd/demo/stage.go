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

// stage is what the audience sees.
type stage struct {
	io.Writer
	styled bool
	// progress of what takes long.
	progress progress.Func
}

// newStage shows on a file, with bold type when that is a terminal.
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

// heading begins a scene.
func (s *stage) heading(title string) {
	line := "── " + title + " " + strings.Repeat("─", max(3, text.Columns-text.Width(title)-4))
	fmt.Fprintf(s, "\n%s\n\n", s.style("1;36", line))
}

// say is the narrator.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintln(s, s.style("3", text.Wrap(fmt.Sprintf(format, args...), "")))
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
			blocks[i] = text.Wrap(block, "    ")
		}
	}
	fmt.Fprintln(s, strings.Join(blocks, "\n\n"))
}

// heads are the columns of a kubectl table, by their headings.
var heads = regexp.MustCompile(`[A-Z]+( [A-Z]+)*\s*`)

// isTable: kubectl's tables begin with a line of headings.
func isTable(lines []string) bool {
	return len(lines) > 1 && strings.TrimSpace(heads.ReplaceAllString(lines[0], "")) == ""
}

// squeeze takes spaces from between the columns of a table of kubectl's until it fits.
func squeeze(table []string) []string {
	widest := 0
	for _, line := range table {
		widest = max(widest, text.Width(line))
	}
	if widest <= text.Columns {
		return table
	}
	starts := heads.FindAllStringIndex(table[0], -1)
	gap := 2 // kubectl's is 3
	if widest-(len(starts)-1) > text.Columns {
		gap = 1
	}
	rows := make([][]string, len(table))
	for i, line := range table {
		for j, at := range starts {
			end := at[1]
			if j == len(starts)-1 {
				end = len(line) // the last column is as long as it likes
			}
			start := min(at[0], len(line))
			rows[i] = append(rows[i], strings.TrimSpace(line[start:max(start, min(end, len(line)))]))
		}
	}
	return strings.Split(strings.TrimRight(text.Table(rows, gap), "\n"), "\n")
}
