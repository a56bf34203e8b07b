// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drawn compares the output of kubectl trellis map with that of kubectl trellis tree for the same cluster.
package drawn

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Diff returns the differences between a domain of a map, with all domains below it, and the same domain of a report, which summarizes
// domains without pods. diff is empty when they agree. domains is the number of compared domains of the report.
func Diff(reported, whole *tree.Domain) (diff string, domains int) {
	var b strings.Builder
	compare(&b, &domains, reported, whole)
	return b.String(), domains
}

func compare(b *strings.Builder, domains *int, reported, whole *tree.Domain) {
	*domains++
	if diff := cmp.Diff(reported.Amount, whole.Amount); diff != "" {
		fmt.Fprintf(b, "%s %s (-tree +map):\n%s", reported.Level, reported.Name, diff)
	}
	if reported.State != whole.State {
		fmt.Fprintf(b, "%s %s: drawn as %q, tree says %q\n", reported.Level, reported.Name, whole.State, reported.State)
	}
	if diff := cmp.Diff(reported.Pods, whole.Pods); diff != "" {
		fmt.Fprintf(b, "pods on %s (-tree +map):\n%s", reported.Name, diff)
	}
	count := len(reported.Children)
	for _, others := range reported.Others {
		count += others.Count
	}
	if count != len(whole.Children) {
		fmt.Fprintf(b, "%s %s: %d children, tree counts %d\n", reported.Level, reported.Name, len(whole.Children), count)
	}
	for _, child := range reported.Children {
		found := false
		for _, other := range whole.Children {
			if other.Name == child.Name {
				compare(b, domains, child, other)
				found = true
			}
		}
		if !found {
			fmt.Fprintf(b, "%s %s is not on the map\n", child.Level, child.Name)
		}
	}
}
