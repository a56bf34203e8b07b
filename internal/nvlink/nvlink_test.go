// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nvlink

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	for name, tc := range map[string]struct {
		seats []Seat
		want  string
	}{
		"one clique": {
			[]Seat{{"prefill-0", "7.1"}, {"decode-0", "7.1"}, {"decode-0", "7.1"}},
			"NVLink domain cd: decode-0 (2 pods), prefill-0 (1 pod) in clique 7.1",
		},
		"two cliques, and nodes without one": {
			[]Seat{{"decode-0", ""}, {"prefill-0", "7.2"}, {"decode-0", "7.1"}},
			"NVLink domain cd is in 3 cliques, which share no memory: decode-0 (1 pod) in clique 7.1; prefill-0 (1 pod) in clique 7.2; decode-0 (1 pod) in no clique",
		},
		"many replicas": {
			[]Seat{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}, {"e", "1"}, {"f", "1"}},
			"NVLink domain cd: a (1 pod), b (1 pod), c (1 pod), d (1 pod), 2 more in clique 1",
		},
		"many cliques": {
			[]Seat{{"a", "1"}, {"a", "2"}, {"a", "3"}, {"a", "4"}, {"a", "5"}},
			"NVLink domain cd is in 5 cliques, which share no memory: a (1 pod) in clique 1; a (1 pod) in clique 2; a (1 pod) in clique 3; a (1 pod) in clique 4; 1 more cliques",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Describe("cd", CliquesOf(tc.seats))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
