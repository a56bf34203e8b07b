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

// Omitted is a level that a topology lacks. Without this level, one path covers several places.
type Omitted struct {
	// Key is the label key of the missing level; Below is the narrower level whose values repeat.
	Key   string
	Below topology.Level
	// Path is the first domain of Below with several values of Key, and Values are these values.
	Path   topology.Path
	Values []string
	// Domains counts the domains of Below with several values of Key. All counts all domains of Below.
	Domains, All int
}

// maxValues is the maximum number of values that a message lists.
const maxValues = 3

// String describes the omitted level and the fix in one sentence.
func (o Omitted) String() string {
	shown := strings.Join(o.Values[:min(len(o.Values), maxValues)], ", ")
	if len(o.Values) > maxValues {
		shown += ", ..."
	}
	return fmt.Sprintf("%s %s covers %d places: its nodes have %d values of label %s (%s), as in %d of %d domains; make that label a level "+
		"above '%s'",
		o.Below.Domain, o.Path, len(o.Values), len(o.Values), o.Key, shown, o.Domains, o.All, o.Below.Domain)
}

// FindOmitted finds node labels that are broader than a level, are not levels themselves, and divide domains of that level. For each level,
// it returns the label that divides the most domains. It skips levels with unique values, such as nvidia.com/gpu.clique, because no label
// can divide their domains.
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
		in, worst, most := domainsOf(labels, levels[:i+1]), "", 0
		for _, name := range slices.Sorted(maps.Keys(ranks)) {
			if ranks[name] >= key.Rank {
				continue
			}
			if divided := in.dividedBy(labels, name); len(divided) > most {
				worst, most = name, len(divided)
			}
		}
		if most > 0 {
			out = append(out, in.omitted(labels, levels[:i+1], worst))
		}
	}
	return out
}

// candidates returns the labels that have a rank and are not levels, with their ranks.
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

// domains contains the domains of the last of the given levels.
type domains struct {
	// at is the index of each node's domain; -1 for a node outside of these domains.
	at []int
	// paths are the paths of the domains, in the order of their first nodes.
	paths []topology.Path
}

func domainsOf(labels []map[string]string, levels topology.Levels) *domains {
	d, known := &domains{at: make([]int, len(labels))}, map[string]int{}
	for i, node := range labels {
		path := levels.PathOf(node)
		if len(path) < len(levels) {
			d.at[i] = -1
			continue
		}
		key := strings.Join(path, "\x00")
		at, ok := known[key]
		if !ok {
			at, known[key] = len(d.paths), len(d.paths)
			d.paths = append(d.paths, path)
		}
		d.at[i] = at
	}
	return d
}

// dividedBy returns the domains that have several values of a label.
func (d *domains) dividedBy(labels []map[string]string, name string) []int {
	first, several := make([]string, len(d.paths)), make([]bool, len(d.paths))
	var divided []int
	for i, at := range d.at {
		if at < 0 {
			continue
		}
		switch value := labels[i][name]; {
		case value == "" || value == first[at] || several[at]:
		case first[at] == "":
			first[at] = value
		default:
			several[at] = true
			divided = append(divided, at)
		}
	}
	return divided
}

// omitted describes the level whose label divides the domains.
func (d *domains) omitted(labels []map[string]string, levels topology.Levels, name string) Omitted {
	divided := d.dividedBy(labels, name)
	example := slices.MinFunc(divided, func(a, b int) int { return slices.Compare(d.paths[a], d.paths[b]) })
	values := map[string]bool{}
	for i, at := range d.at {
		if value := labels[i][name]; at == example && value != "" {
			values[value] = true
		}
	}
	return Omitted{
		Key: name, Below: levels[len(levels)-1], All: len(d.paths), Domains: len(divided),
		Path: d.paths[example], Values: slices.Sorted(maps.Keys(values)),
	}
}
