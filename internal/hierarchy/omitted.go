// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Omitted is a level that a topology lacks, so that one of its paths means several places.
type Omitted struct {
	// Key of the level that lacks, and Below, the narrower level whose values repeat.
	Key   string
	Below topology.Level
	// Path is the first domain of Below that holds several values of Key, and Values are those, the first few.
	Path   topology.Path
	Values []string
	// Domains of Below that hold several values, of All of them.
	Domains, All int
}

// maxValues is how many values a message lists.
const maxValues = 3

// String says it in one sentence.
func (o Omitted) String() string {
	shown := strings.Join(o.Values[:min(len(o.Values), maxValues)], ", ")
	if len(o.Values) > maxValues {
		shown += ", ..."
	}
	return fmt.Sprintf("%s %s means %d places: its nodes have %d values of label %s (%s), as in %d of %d domains; make that label a level above '%s'",
		o.Below.Domain, o.Path, len(o.Values), len(o.Values), o.Key, shown, o.Domains, o.All, o.Below.Domain)
}

// FindOmitted finds labels of the nodes that are broader than a level, are no level themselves, and divide domains of that level. A level
// whose values are unique by their making, such as nvidia.com/gpu.clique, cannot be divided so. For each level the label that divides most
// domains is returned.
func FindOmitted(labels []map[string]string, levels topology.Levels) []Omitted {
	ranks := candidates(labels, levels)
	var out []Omitted
	for i, level := range levels {
		key, ok := Look(level.Key)
		if !ok {
			key.Rank = words[level.Domain]
		}
		if key.Rank == Unknown || key.Unique {
			continue
		}
		var worst Omitted
		for _, name := range slices.Sorted(maps.Keys(ranks)) {
			if ranks[name] >= key.Rank {
				continue
			}
			if found := divided(labels, levels[:i+1], name); found.Domains > worst.Domains {
				worst = found
			}
		}
		if worst.Domains > 0 {
			out = append(out, worst)
		}
	}
	return out
}

// candidates are the labels with a rank that are no levels.
func candidates(labels []map[string]string, levels topology.Levels) map[string]Rank {
	out, seen := map[string]Rank{}, map[string]bool{}
	for _, node := range labels {
		for name := range node {
			if seen[name] {
				continue
			}
			seen[name] = true
			if key, ok := Look(name); ok && levels.IndexOfKey(name) == topology.NoLevel {
				out[name] = key.Rank
			}
		}
	}
	return out
}

// divided counts the domains of the last level that hold several values of a label.
func divided(labels []map[string]string, levels topology.Levels, name string) Omitted {
	values, paths := map[string]map[string]bool{}, map[string]topology.Path{}
	for _, node := range labels {
		path := levels.PathOf(node)
		if len(path) < len(levels) {
			continue
		}
		at := strings.Join(path, "\x00")
		if values[at] == nil {
			values[at], paths[at] = map[string]bool{}, path
		}
		if value := node[name]; value != "" {
			values[at][value] = true
		}
	}
	out := Omitted{Key: name, Below: levels[len(levels)-1], All: len(values)}
	for _, at := range slices.Sorted(maps.Keys(values)) {
		if len(values[at]) < 2 {
			continue
		}
		if out.Domains++; out.Domains == 1 {
			out.Path, out.Values = paths[at], slices.Sorted(maps.Keys(values[at]))
		}
	}
	return out
}
