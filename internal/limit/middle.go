// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import "unicode/utf8"

// Middle returns s, or its beginning and its end with an ellipsis between them, in so many bytes: runtimes wrap causes, which come last.
// Two thirds are of the end.
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
	return s[:head] + ellipsis + s[tail:]
}
