// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"strings"
)

// Join joins at most the first most items, and counts all others: "a, b, c and 2 more". total is the number of all items; items may contain
// fewer elements.
func Join(items []string, total, most int, separator string) string {
	shown := items[:min(len(items), most)]
	text := strings.Join(shown, separator)
	if more := total - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// First returns the first most items, followed by the number of all other items: "2 more replicas". what, here "replicas", may be empty.
func First(items []string, most int, what string) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), strings.TrimSpace(fmt.Sprintf("%d more %s", len(items)-most, what)))
}
