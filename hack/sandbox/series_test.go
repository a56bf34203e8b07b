// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import "testing"

func TestSeries(t *testing.T) {
	const text = `# HELP writes_total Writes.
# TYPE writes_total counter
writes_total{code="200",verb="PUT"} 3
writes_total{code="200",verb="POST"} 4
writes_total{code="409",verb="PUT"} 1
writes_total_other 100
plans_bucket{le="+Inf"} 7
plans_sum 0.25
plans_count 7
`
	for name, tc := range map[string]struct {
		metric string
		labels []string
		want   float64
	}{
		"all series":               {"writes_total", nil, 8},
		"with a label":             {"writes_total", []string{`verb="PUT"`}, 4},
		"with two labels":          {"writes_total", []string{`verb="PUT"`, `code="409"`}, 1},
		"without such a series":    {"writes_total", []string{`verb="GET"`}, 0},
		"the count of a histogram": {"plans_count", nil, 7},
		"the sum of a histogram":   {"plans_sum", nil, 0.25},
		"no such metric":           {"plans", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Series(text, tc.metric, tc.labels...); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
