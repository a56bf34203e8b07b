// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"slices"
	"strings"
)

// Join joins the first items, and appends the number of all other items: "a, b, c and 2 more". most is the maximum number of joined items.
// total is the number of all items; the given list may be shorter.
func Join(items []string, total, most int, separator string) string {
	shown := items[:min(len(items), most)]
	text := strings.Join(shown, separator)
	if more := total - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// First keeps the first items, and replaces all other items by their number: "2 more replicas". most is the maximum number of kept items.
// The noun "replicas" is the parameter what; it may be empty.
func First(items []string, most int, what string) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), strings.TrimSpace(fmt.Sprintf("%d more %s", len(items)-most, what)))
}
