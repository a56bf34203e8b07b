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
	} {
		if got := Text(tc.in, tc.bytes); got != tc.want {
			t.Errorf("%q in %d bytes: %q, want %q", tc.in, tc.bytes, got, tc.want)
		}
	}
}
