// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import "unicode/utf8"

// Middle shortens s to the given number of bytes by replacing its middle with an ellipsis. Two thirds of the result are from the end of s,
// because a wrapped error has its cause there. Middle never splits a number.
func Middle(s string, bytes int) string {
	if len(s) <= bytes || bytes <= len(ellipsis) {
		return Text(s, bytes)
	}
	head := (bytes - len(ellipsis)) / 3
	tail := len(s) - (bytes - len(ellipsis) - head)
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	if digit(s[head]) { // a part of a number would be another number
		for head > 0 && digit(s[head-1]) {
			head--
		}
	}
	if digit(s[tail-1]) {
		for tail < len(s) && digit(s[tail]) {
			tail++
		}
	}
	return s[:head] + ellipsis + s[tail:]
}
