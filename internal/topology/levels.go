// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"strings"
)

// Level is one level of a topology: the name of its domains, such as rack, and the key of the node label with the domain's value.
type Level struct {
	Domain string
	Key    string
}

// Levels are ordered from the broadest to the narrowest.
type Levels []Level

const (
	// NoLevel is the index of "no level": the whole cluster.
	NoLevel = -1
	// GoneLevel is the index of a required level that the topology no longer has (docs/placement.md#when-something-breaks).
	GoneLevel = -2
)

// Index returns the position of a domain name, or NoLevel.
func (ls Levels) Index(domain string) int {
	return slices.IndexFunc(ls, func(l Level) bool { return l.Domain == domain })
}

// IndexOfKey returns the position of a node label key, or NoLevel.
func (ls Levels) IndexOfKey(key string) int {
	return slices.IndexFunc(ls, func(l Level) bool { return l.Key == key })
}

// PathOf returns a node's path from its labels, down to the first label that it lacks (docs/providers.md#gates).
func (ls Levels) PathOf(labels map[string]string) Path {
	path := make(Path, 0, len(ls))
	for _, l := range ls {
		value, ok := labels[l.Key]
		if !ok || value == "" {
			break
		}
		path = append(path, value)
	}
	return path
}

// In reports whether a node with these labels is in a domain of the narrowest level: it has the labels of all levels.
func (ls Levels) In(labels map[string]string) bool {
	for _, l := range ls {
		if labels[l.Key] == "" {
			return false
		}
	}
	return true
}

// Share reports whether nodes with these labels are in the same domain of the narrowest level. Both nodes must be in a domain of this level
// ([Levels.In]).
func (ls Levels) Share(a, b map[string]string) bool {
	for _, l := range ls {
		if a[l.Key] != b[l.Key] {
			return false
		}
	}
	return true
}

// Selector returns the node labels that pin a pod to a path: the labels of all its levels, because zones may have racks of the same name.
func (ls Levels) Selector(p Path) map[string]string {
	selector := make(map[string]string, len(p))
	for i := range min(len(p), len(ls)) {
		selector[ls[i].Key] = p[i]
	}
	return selector
}

// Labels returns the labels of the nodes of a domain that match a selector: the labels of the selector and of the domain's path.
func (ls Levels) Labels(domain Path, selector map[string]string) map[string]string {
	labels := ls.Selector(domain)
	if len(selector) == 0 {
		return labels
	}
	out := maps.Clone(selector)
	maps.Copy(out, labels)
	return out
}

// Name returns the name of a level in messages; NoLevel is the cluster.
func (ls Levels) Name(level int) string {
	if level < 0 || level >= len(ls) {
		return "cluster"
	}
	return ls[level].Domain
}

// Path identifies one domain by the label values from the broadest level down. The empty path is the whole cluster. Two zones may both have
// a rack-1; zone-a/rack-1 and zone-b/rack-1 are different paths and so different domains.
type Path []string

// String joins the values with slashes: "zone-a/rack-1".
func (p Path) String() string { return strings.Join(p, "/") }

// ParsePath parses the result of Path.String. Label values contain no slash.
func ParsePath(s string) Path {
	if s == "" {
		return nil
	}
	return strings.Split(s, "/")
}

// Equal reports whether two paths name the same domain.
func (p Path) Equal(other Path) bool { return slices.Equal(p, other) }

// Contains reports whether other is this domain or lies inside it.
func (p Path) Contains(other Path) bool {
	return len(p) <= len(other) && slices.Equal(p, other[:len(p)])
}

// Level returns the index of the last level of the path; NoLevel for the whole cluster.
func (p Path) Level() int { return len(p) - 1 }

// Truncate returns the enclosing domain at a level. It returns the path itself if the path is broader than this level.
func (p Path) Truncate(level int) Path { return p[:min(len(p), max(level+1, 0))] }

// Compare orders paths value by value; a domain precedes the domains inside it.
func (p Path) Compare(other Path) int { return slices.Compare(p, other) }
