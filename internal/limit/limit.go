// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limit keeps texts within bounds.
package limit

import "unicode/utf8"

// Condition is the most bytes of a condition's message. The API server takes more; a reader does not.
const Condition = 1024

const ellipsis = "..."

// Text returns s, or as many of its characters as fit with an ellipsis into so many bytes.
func Text(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	end := max(bytes-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
