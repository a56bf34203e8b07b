// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limit shortens texts and lists to a maximum length.
package limit

import "unicode/utf8"

// Condition is the maximum length of a condition's message, in bytes. The API server accepts longer messages, but people do not read them.
const Condition = 1024

const ellipsis = "..."

func digit(c byte) bool { return '0' <= c && c <= '9' }

// Text shortens s to at most the given number of bytes. A shortened text ends with an ellipsis, which counts towards this length. Text
// never splits a number.
func Text(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	end := max(bytes-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if digit(s[end]) { // a part of a number would be another number
		for end > 0 && digit(s[end-1]) {
			end--
		}
	}
	return s[:end] + ellipsis
}
