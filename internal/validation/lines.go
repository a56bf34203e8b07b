// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The API server passes at most 4,096 runes of warnings a request on, shared with everybody else who warns, and cuts each to 256 runes
// when there are more. These bounds stay clear of both.
const (
	maxLine     = 240
	maxWarnings = 3000
)

// enumerate joins items up to about a number of runes and counts the rest: "a, b and 3 more". The first item is always there, cut if need be.
func enumerate(items []string, separator string, runes int) string {
	var b strings.Builder
	for i, item := range items {
		if i == 0 {
			b.WriteString(cut(item, runes))
			continue
		}
		if utf8.RuneCountInString(b.String())+len(separator)+utf8.RuneCountInString(item) > runes {
			return fmt.Sprintf("%s and %d more", b.String(), len(items)-i)
		}
		b.WriteString(separator + item)
	}
	return b.String()
}

// cut shortens a text to a number of runes.
func cut(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:max(runes-3, 0)]) + "..."
}

// line is a warning of bounded length: text, then in brackets whom it is about.
func line(text string, whom []string) string {
	const more = len(" () and 1000 more")
	if len(whom) == 0 {
		return cut(text, maxLine)
	}
	text = cut(text, maxLine*2/3)
	return fmt.Sprintf("%s (%s)", text, enumerate(whom, ", ", maxLine-more-utf8.RuneCountInString(text)))
}

// Bounded keeps the warnings of one answer within what a client gets to see.
func Bounded(lines []string) []string {
	total := 0
	for i, l := range lines {
		if total += utf8.RuneCountInString(l); total > maxWarnings {
			return append(slices.Clone(lines[:i]), fmt.Sprintf("and %d more warnings", len(lines)-i))
		}
	}
	return lines
}

var brackets = regexp.MustCompile(`\[([^]]*)\]`)

// kindOfField separates what a path names from where: "spec.services[A].modelRef" is "spec.services[*].modelRef" at "A".
func kindOfField(path string) (kind, where string) {
	if found := brackets.FindStringSubmatch(path); found != nil {
		where = found[1]
	}
	first := true
	kind = brackets.ReplaceAllStringFunc(path, func(part string) string {
		keep := !first && strings.Contains(path, ".annotations"+part) // of a service: which annotation says more than which service
		if first = false; keep {
			return part
		}
		return "[*]"
	})
	return kind, where
}

// byKind says the same about several fields, one line a kind of field, in the order of first appearance. A field met once keeps its full path.
func byKind(paths []string, say func(kind string) string) []string {
	type group struct{ paths, where []string }
	groups := map[string]*group{}
	var order []string
	for _, path := range paths {
		kind, where := kindOfField(path)
		g := groups[kind]
		if g == nil {
			g = &group{}
			groups[kind] = g
			order = append(order, kind)
		}
		g.paths = append(g.paths, path)
		if !slices.Contains(g.where, where) {
			g.where = append(g.where, where)
		}
	}
	var lines []string
	for _, kind := range order {
		if g := groups[kind]; len(g.paths) == 1 {
			lines = append(lines, line(say(g.paths[0]), nil))
		} else {
			lines = append(lines, line(say(kind), g.where))
		}
	}
	return lines
}
