// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Shorten returns name if it has at most limit bytes. Otherwise it returns the beginning of name and the hash of identity, at most limit
// bytes in total. With Shorten, other packages shorten the names of other kinds in the same way as render.
func Shorten(name, identity string, limit int) string { return fit(name, identity, limit) }

// Hashed returns the beginning of name and the hash of identity, at most limit bytes in total. Use Hashed if another object already has
// this name.
func Hashed(name, identity string, limit int) string { return hashed(name, identity, limit) }

// DNSLabel lower-cases a name, replaces invalid characters with '-', and trims '-' from both ends. It does not limit the length.
func DNSLabel(name string) string { return dnsLabel(name) }

// Selector returns labels that select the pods of one component of a graph.
func Selector(graph, group string) map[string]string { return groupSelector(graph, group) }
