// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limit keeps texts within bounds.
package limit

import "unicode/utf8"

// Condition is the most bytes of a condition's message. The API server takes more; a reader does not.
const Condition = 1024

const ellipsis = "..."

func digit(c byte) bool { return '0' <= c && c <= '9' }

// Text returns s, or as many of its characters as fit with an ellipsis into so many bytes. No number is cut in two.
func Text(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	end := max(bytes-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if digit(s[end]) { // a part of a number is another number
		for end > 0 && digit(s[end-1]) {
			end--
		}
	}
	return s[:end] + ellipsis
}
