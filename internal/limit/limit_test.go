// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import "testing"

func TestText(t *testing.T) {
	for _, tc := range []struct {
		in    string
		bytes int
		want  string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"longer than that", 10, "longer ..."},
		{"größer", 6, "gr..."}, // of the two bytes of the ö one would fit
		{"anything", 2, "..."},
		{"used 1234 of 5678", 16, "used 1234 of ..."},
		{"used 1234 of 5678", 15, "used 1234 of..."},
		{"used 1234 of 5678", 10, "used ..."},
		{"12345", 4, "..."},
	} {
		if got := Text(tc.in, tc.bytes); got != tc.want {
			t.Errorf("%q in %d bytes: %q, want %q", tc.in, tc.bytes, got, tc.want)
		}
	}
}
