// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// networkWords are words in label names that indicate a network label.
var networkWords = []string{
	"accelerator", "block", "domain", "fabric", "hypernode", "island", "layer", "leaf", "level", "network", "nvlink", "rack", "rail", "row",
	"spine", "superpod", "switch", "tier", "topology",
}

// ofNetwork reports whether a label name contains one of networkWords.
func ofNetwork(name string) bool {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.ContainsFunc(parts, func(part string) bool {
		return slices.Contains(networkWords, strings.TrimRight(part, "0123456789"))
	})
}

// noteUnknown adds notes about labels that group the nodes and may describe the network, but have no known rank. Labels whose names differ
// only in a trailing number form one family.
func (p *proposer) noteUnknown(columns []*column) {
	families := map[string][]*column{}
	for _, c := range columns {
		family := c.Name
		if stem := strings.TrimRight(c.Name, "0123456789"); stem != c.Name {
			family = stem + "N"
		}
		families[family] = append(families[family], c)
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		members := families[family]
		if len(members) == 1 {
			p.note("label %s is left out: its place in the network is not known", members[0].Name)
			continue
		}
		var values []string
		for _, c := range members {
			values = append(values, strconv.Itoa(c.distinct))
		}
		p.note("labels %s (%d labels; values: %s) are left out: their place in the network is not known", family, len(members),
			limit.Join(values, len(values), maxNames, ", "))
	}
}
