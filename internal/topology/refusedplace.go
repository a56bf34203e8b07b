// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Refused is a place where a scheduler refused pods: one host or, if Host is empty, all nodes with the labels.
type Refused struct {
	Host   string
	Labels map[string]string
}

// Covers reports whether the place includes a node, by its name and labels. A place without a host and without labels includes no node.
func (r Refused) Covers(node string, labels map[string]string) bool {
	if r.Host != "" {
		return r.Host == node
	}
	return len(r.Labels) > 0 && matches(r.Labels, labels)
}

// Equal reports whether two places are the same.
func (r Refused) Equal(other Refused) bool {
	return r.Host == other.Host && maps.Equal(r.Labels, other.Labels)
}

func (r Refused) key() string {
	var b strings.Builder
	b.WriteString(strconv.Quote(r.Host))
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		b.WriteString(strconv.Quote(name) + strconv.Quote(r.Labels[name]))
	}
	return b.String()
}

// Refusing returns the shape for pods that must not be placed in the given places.
func (s *Shape) Refusing(places []Refused) *Shape {
	if len(places) == 0 {
		return s
	}
	keys := make([]string, 0, len(places))
	for _, p := range places {
		keys = append(keys, p.key())
	}
	slices.Sort(keys)
	out := *s
	out.refused = places
	out.key = s.key + "|refused|" + strings.Join(keys, "|")
	return &out
}

// refuses reports whether a node is in a place where a scheduler refused pods of the shape.
func (c *Cluster) refuses(s *Shape, n *node) bool {
	for _, place := range s.refused {
		c.work += uint64(1 + len(place.Labels))
		if place.Covers(n.name, n.spec.labels) {
			return true
		}
	}
	return false
}
