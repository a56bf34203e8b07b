// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "testing"

// The score of several replicas is that of the worst one, however many sit well.
func TestScoreIsTheLeast(t *testing.T) {
	ls := levels("zone", "rack")
	c := clusterOf(ls, "a1 a/r1 8", "a2 a/r1 8", "a3 a/r2 8", "b1 b/r1 8", "x - 8")
	cases := map[string]struct {
		replicas [][]string
		want     float64
	}{
		"none":                         {nil, Unscored},
		"without nodes":                {[][]string{nil, {}}, Unscored},
		"one rack":                     {[][]string{{"a1", "a2"}}, 1},
		"one rack and two":             {[][]string{{"a1", "a2"}, {"a1", "a3"}, {"b1"}}, 0.75},
		"two zones":                    {[][]string{{"a1"}, {"a1", "b1"}, {"a1", "a3"}}, 0.5},
		"each in a rack of its own":    {[][]string{{"a1"}, {"a3"}, {"b1"}}, 1},
		"what waits does not count":    {[][]string{{"a1", "a2"}, nil}, 1},
		"rack r1 in zones is two":      {[][]string{{"a1", "b1", "b1"}}, 0.5},
		"a node without labels":        {[][]string{{"a1", "x"}}, 0.5},
		"two pods on a node unlabeled": {[][]string{{"x", "x"}}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Score(c, ls, tc.replicas); got != tc.want {
				t.Errorf("score %v, want %v", got, tc.want)
			}
		})
	}
	if got := Score(c, nil, [][]string{{"a1", "b1"}}); got != 1 {
		t.Errorf("without levels %v, want 1", got)
	}
}
