// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
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
	line := "── " + text + " " + strings.Repeat("─", max(3, columns-utf8.RuneCountInString(text)-4))
	fmt.Fprintf(s, "\n%s\n\n", s.style("1;36", line))
}

// say is the narrator.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintln(s, s.style("3", wrap(fmt.Sprintf(format, args...), "")))
}

// show shows a command as it would be typed.
func (s *stage) show(format string, args ...any) {
	fmt.Fprintln(s, s.bold("$ "+fmt.Sprintf(format, args...)))
}

// print shows what a command printed.
func (s *stage) print(output string) {
	fmt.Fprintln(s, wrap(strings.TrimRight(output, "\n"), "    "))
}

// wrap breaks lines that are too long between words.
func wrap(text, indent string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if utf8.RuneCountInString(line) <= columns {
			continue
		}
		var b strings.Builder
		used := 0
		for j, word := range strings.SplitAfter(line, " ") {
			length := utf8.RuneCountInString(strings.TrimRight(word, " "))
			if j > 0 && used+length > columns {
				b.WriteString("\n" + indent)
				used = utf8.RuneCountInString(indent)
			}
			b.WriteString(word)
			used += utf8.RuneCountInString(word)
		}
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}
