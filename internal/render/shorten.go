// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Shorten returns name if it is within limit. Otherwise it returns the beginning of name and the hash of identity. Other packages use it to
// shorten the names of other kinds, with other limits, in the same way as render.
func Shorten(name, identity string, limit int) string { return fit(name, identity, limit) }

// Hashed returns the beginning of name and the hash of identity, within limit. It is for a name that another object already has.
func Hashed(name, identity string, limit int) string { return hashed(name, identity, limit) }

// DNSLabel lower-cases a name, and replaces every character that a DNS label cannot contain by '-'. It does not shorten the name.
func DNSLabel(name string) string { return dnsLabel(name) }

// Selector returns labels that select the pods of one component of a graph.
func Selector(graph, group string) map[string]string { return groupSelector(graph, group) }
