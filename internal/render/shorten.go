// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Shorten returns name, or as much of it as leaves space for the hash of identity within limit. It makes names for objects of other
// kinds, whose limits differ, in the way Trellis' own are made.
func Shorten(name, identity string, limit int) string { return fit(name, identity, limit) }

// Hashed appends the hash of identity to as much of name as limit allows, for a name that would be another's.
func Hashed(name, identity string, limit int) string { return hashed(name, identity, limit) }

// DNSLabel lower-cases a name and puts '-' for everything a DNS label cannot hold. It does not shorten.
func DNSLabel(name string) string { return dnsLabel(name) }

// Selector selects exactly the pods of one component of a graph.
func Selector(graph, group string) map[string]string { return groupSelector(graph, group) }
