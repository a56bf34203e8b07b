// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestPriorityClassesAreBounded(t *testing.T) {
	labels, seen := classLabels{seen: map[string]bool{}}, map[string]bool{}
	for i := range 100 {
		seen[labels.label(fmt.Sprint("class-", i))] = true
	}
	if len(seen) != maxClasses+1 || !seen["other"] || labels.label("class-3") != "class-3" {
		t.Errorf("%d labels: %v", len(seen), seen)
	}
	if got := (&classLabels{seen: map[string]bool{}}).label(""); got != "none" {
		t.Errorf("no class is called %q", got)
	}
}

// No label is the name of an object, but for the metrics by graph.
func TestLabelsAreNoObjects(t *testing.T) {
	bounded := []string{"reason", "priority_class", "level", "resource", "pod_size", "condition", "result"}
	format := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)
	found := 0
	for _, collector := range Collectors() {
		described := make(chan *prometheus.Desc, 100)
		collector.Describe(described)
		close(described)
		for d := range described {
			parts := format.FindStringSubmatch(d.String())
			if parts == nil {
				t.Fatalf("cannot read %s", d)
			}
			found++
			for _, label := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
				if !strings.HasPrefix(parts[1], "trellis_graph_") && !slices.Contains(bounded, label) {
					t.Errorf("%s has the label %s", parts[1], label)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d metrics", found)
	}
}

// A standby has no gauges of the cluster: those of the leader would be contradicted.
func TestStandbyGathersNothing(t *testing.T) {
	running.Store(nil)
	out := make(chan prometheus.Metric, 1)
	(&gatherer{}).Collect(out)
	if len(out) > 0 {
		t.Error("a standby has metrics of the cluster")
	}
}
