// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "testing"

func TestRefusedPlaceCovers(t *testing.T) {
	rack := map[string]string{"z": "z", "r": "a"}
	for name, tc := range map[string]struct {
		place Refused
		node  string
		want  bool
	}{
		"the host":                          {Refused{Host: "a0"}, "a0", true},
		"another host":                      {Refused{Host: "a0"}, "a1", false},
		"the domain around it":              {Refused{Labels: map[string]string{"z": "z"}}, "a0", true},
		"a domain of the same last value":   {Refused{Labels: map[string]string{"z": "y", "r": "a"}}, "a0", false},
		"a narrower domain than the node's": {Refused{Labels: map[string]string{"z": "z", "r": "a", "h": "0"}}, "a0", false},
		"no place":                          {Refused{}, "a0", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.place.Covers(tc.node, rack); got != tc.want {
				t.Errorf("%+v covers %s: %v, want %v", tc.place, tc.node, got, tc.want)
			}
		})
	}
}
