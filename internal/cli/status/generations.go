// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
)

// GenerationCount is a generation of workers with so many replicas of a component.
type GenerationCount struct {
	// Name of the generation; empty for workers without one.
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
}

// generationsOf counts the replicas of a component by generation, the one with the oldest pod first. It is nil unless there are several.
func generationsOf(s Observed, component string) []GenerationCount {
	type seen struct {
		replicas map[string]bool
		oldest   int64
	}
	byName := map[string]seen{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Labels[render.LabelComponent] != render.LabelValue(component) || pod.DeletionTimestamp != nil {
			continue
		}
		name, created := pod.Labels[render.LabelWorkerHash], pod.CreationTimestamp.Unix()
		g, known := byName[name]
		if !known {
			g = seen{map[string]bool{}, created}
		}
		g.replicas[pod.Labels[render.LabelReplica]] = true
		g.oldest = min(g.oldest, created)
		byName[name] = g
	}
	if len(byName) < 2 {
		return nil
	}
	var out []GenerationCount
	for name, g := range byName {
		out = append(out, GenerationCount{name, len(g.replicas)})
	}
	slices.SortFunc(out, func(a, b GenerationCount) int {
		return cmp.Or(cmp.Compare(byName[a.Name].oldest, byName[b.Name].oldest), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// generations is a line about the generations of a component, "" unless there are several.
func (s Component) generations() string {
	parts := make([]string, 0, len(s.Generations))
	for _, g := range s.Generations {
		parts = append(parts, text.Count(g.Replicas, "replica")+" of "+cmp.Or(g.Name, "none"))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("generations of %s: %s", s.Name, strings.Join(parts, ", "))
}
