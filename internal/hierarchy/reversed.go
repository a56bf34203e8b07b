// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Reversed are two adjacent levels in the wrong order: Below is broader than Above.
type Reversed struct{ Above, Below topology.Level }

// String describes the wrong order and the fix in one sentence.
func (r Reversed) String() string {
	return fmt.Sprintf("level '%s' (%s) is above level '%s' (%s), which is broader: list the levels from the broadest to the narrowest",
		r.Above.Domain, r.Above.Key, r.Below.Domain, r.Below.Key)
}

// FindReversed finds adjacent levels in the wrong order: their ranks are reversed, and the labels confirm this. The labels confirm it if
// each value of the upper label occurs with only one value of the lower label, and some value of the lower label occurs with several values
// of the upper label.
func FindReversed(labels []map[string]string, levels topology.Levels) []Reversed {
	var out []Reversed
	for i := 1; i < len(levels); i++ {
		above, below := levels[i-1], levels[i]
		if !Misranked(above, below) {
			continue
		}
		if !severalIn(labels, above.Key, below.Key) && severalIn(labels, below.Key, above.Key) {
			out = append(out, Reversed{above, below})
		}
	}
	return out
}

// Misranked reports whether two levels are in the wrong order by their ranks. The labels of nodes may still show that the order is right.
func Misranked(above, below topology.Level) bool {
	upper, lower := rankOf(above), rankOf(below)
	return upper != Unknown && lower != Unknown && upper > lower
}

// rankOf returns the rank of a level by its key, or else by its name.
func rankOf(level topology.Level) Rank {
	if key, ok := Look(level.Key); ok {
		return key.Rank
	}
	return words[level.Domain]
}

// severalIn reports whether some value of the outer label occurs with several values of the inner label.
func severalIn(labels []map[string]string, outer, inner string) bool {
	first := map[string]string{}
	for _, node := range labels {
		value, in := node[outer], node[inner]
		if value == "" || in == "" {
			continue
		}
		if known, ok := first[value]; ok && known != in {
			return true
		}
		first[value] = in
	}
	return false
}
