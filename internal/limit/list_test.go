// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJoin(t *testing.T) {
	for name, tc := range map[string]struct {
		items       []string
		total, most int
		want        string
	}{
		"none":                 {nil, 0, 2, ""},
		"as many as fit":       {[]string{"a", "b"}, 2, 2, "a, b"},
		"one more":             {[]string{"a", "b", "c"}, 3, 2, "a, b and 1 more"},
		"fewer than there are": {[]string{"a", "b"}, 9, 2, "a, b and 7 more"},
	} {
		if got := Join(tc.items, tc.total, tc.most, ", "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		items []string
		what  string
		want  []string
	}{
		"as many as fit": {[]string{"a", "b"}, "pods", []string{"a", "b"}},
		"more":           {[]string{"a", "b", "c", "d"}, "pods", []string{"a", "b", "2 more pods"}},
		"of no kind":     {[]string{"a", "b", "c"}, "", []string{"a", "b", "1 more"}},
	} {
		before := slices.Clone(tc.items)
		if diff := cmp.Diff(tc.want, First(tc.items, 2, tc.what)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !slices.Equal(before, tc.items) {
			t.Errorf("%s: the items were changed: %v", name, tc.items)
		}
	}
}
