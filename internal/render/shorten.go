// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Shorten returns name if it is within limit, or else its beginning and the hash of identity. It shortens names for objects of other
// kinds, with other limits, as render shortens its own.
func Shorten(name, identity string, limit int) string { return fit(name, identity, limit) }

// Hashed returns the beginning of name and the hash of identity, within limit, for a name that another object already has.
func Hashed(name, identity string, limit int) string { return hashed(name, identity, limit) }

// DNSLabel lower-cases a name and replaces every character that a DNS label cannot hold with '-'. It does not shorten the name.
func DNSLabel(name string) string { return dnsLabel(name) }

// Selector selects the pods of one component of a graph.
func Selector(graph, group string) map[string]string { return groupSelector(graph, group) }
