// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strconv"
	"strings"
)

// Series is the sum of the series of a metric that have all labels (NAME="VALUE"), in metrics in Prometheus' text format. It is zero if
// there are none. For a histogram, use the metric NAME_count or NAME_sum.
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
