// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strconv"
	"strings"
)

// Series sums the series of a metric that have all these labels, NAME="VALUE" each, in metrics of Prometheus' text format. It is zero
// where the metric has none. Of a histogram, NAME_count and NAME_sum are metrics.
func Series(text, metric string, labels ...string) (sum float64) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, metric)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(rest, label) }) {
			continue
		}
		fields := strings.Fields(rest)
		value, _ := strconv.ParseFloat(fields[len(fields)-1], 64)
		sum += value
	}
	return sum
}
