// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import "testing"

func TestMiddle(t *testing.T) {
	for _, tc := range []struct {
		in    string
		bytes int
		want  string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"failed: and so on: not found", 15, "fail...ot found"},
		{"ggöööööö", 9, "gg...öö"}, // of the two bytes of an ö one would fit, twice
		{"anything", 2, "..."},
		{"used 1234 of a total of 5678", 24, "used ... total of 5678"},
		{"used 1234 of a total of 5678", 8, "u...5678"},
		{"used 1234 of a total of 5678", 6, "u..."},
	} {
		if got := Middle(tc.in, tc.bytes); got != tc.want || len(got) > max(tc.bytes, len(ellipsis)) {
			t.Errorf("%q in %d bytes: %q, want %q", tc.in, tc.bytes, got, tc.want)
		}
	}
}
