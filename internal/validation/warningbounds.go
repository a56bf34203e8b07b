// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trellis-k8s/trellis/internal/field"
)

// The API server returns at most 4,096 runes of warnings per request, from all webhooks together. If there are more, it truncates each
// warning to 256 runes. These bounds stay below both limits.
const (
	maxLine     = 240
	maxWarnings = 3000
)

// enumerate joins items up to about the given number of runes, and counts the remaining items: "a, b and 3 more". It always includes the
// first item, truncated if necessary.
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

// cut truncates a text to a number of runes.
func cut(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:max(runes-3, 0)]) + "..."
}

// line returns a warning of bounded length: the text, followed by the affected components or objects in parentheses.
func line(text field.Text, whom []string) field.Text {
	return field.Say("%s", boundedLine{text, whom})
}

type boundedLine struct {
	text field.Text
	whom []string
}

// In implements [field.Worded].
func (l boundedLine) In(version string) string {
	const more = len(" () and 1000 more")
	if len(l.whom) == 0 {
		return cut(l.text.In(version), maxLine)
	}
	text := cut(l.text.In(version), maxLine*2/3)
	return fmt.Sprintf("%s (%s)", text, enumerate(l.whom, ", ", maxLine-more-utf8.RuneCountInString(text)))
}

// Bounded returns the warnings for one response in the wording of an API version. If the warnings exceed the length that the API server
// returns, it replaces the last warnings with their number.
func Bounded(warnings []field.Text, version string) []string {
	lines, total := field.In(warnings, version), 0
	for i, l := range lines {
		if total += utf8.RuneCountInString(l); total > maxWarnings {
			return append(slices.Clone(lines[:i]), fmt.Sprintf("and %d more warnings", len(lines)-i))
		}
	}
	return lines
}

// byKind combines equal warnings about several fields into one line if the fields have the same kind of path (see [field.Path.Kind]). The
// lines are in the order of first appearance. The warning about a single field names the full path.
func byKind(paths []*field.Path, say func(kind *field.Path) field.Text) []field.Text {
	return grouped(paths, func(path *field.Path) *field.Path { return path }, func(_, kind *field.Path) field.Text { return say(kind) })
}

// grouped does the same as byKind, but for items with a path. Items share a line if they have the same kind of path and the same text.
func grouped[T any](items []T, pathOf func(T) *field.Path, say func(item T, path *field.Path) field.Text) []field.Text {
	type group struct {
		items []T
		where []string
	}
	groups := map[string]*group{}
	var order []field.Text
	for _, item := range items {
		kind, where := pathOf(item).Kind()
		text := say(item, kind)
		g := groups[text.String()]
		if g == nil {
			g = &group{}
			groups[text.String()] = g
			order = append(order, text)
		}
		g.items = append(g.items, item)
		if !slices.Contains(g.where, where) {
			g.where = append(g.where, where)
		}
	}
	var lines []field.Text
	for _, text := range order {
		if g := groups[text.String()]; len(g.items) == 1 {
			lines = append(lines, line(say(g.items[0], pathOf(g.items[0])), nil))
		} else {
			lines = append(lines, line(text, g.where))
		}
	}
	return lines
}
