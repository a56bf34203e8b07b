// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nearest

import "testing"

func TestOf(t *testing.T) {
	names := []string{"distinct-hosts", "provider", "rollout-paused", "rollout-partition", "workload"}
	for word, want := range map[string]string{
		"distinct-host": "distinct-hosts", "Distinct-Hosts": "distinct-hosts", "distinc-hosts": "distinct-hosts", "provder": "provider",
		"rollout-pausd": "rollout-paused", "rollout-": "rollout-paused", "worklaod": "workload", "replicas": "", "": "", "x": "",
	} {
		if got := Of(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		if got := Distance(tc.a, tc.b); got != tc.want || Distance(tc.b, tc.a) != tc.want {
			t.Errorf("%q to %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
