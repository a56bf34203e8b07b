// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
)

// FuzzObject reads any words as what a command is about: one of its kinds and a name that is one part of a path, or an error.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{"g", "dgd g", "dgd/g", "pods/../x", "sg.v1alpha1.trellis.dev/x", "/", "dgd/", "dgd", "é\x00/a b"} {
		f.Add(seed)
	}
	kinds := []Kind{Graph, Group, Pod, Topology}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		kind, name, err := Object(args, kinds...)
		if err == nil && (!slices.Contains(kinds, kind) || name == "" || strings.ContainsAny(name, "/ ")) {
			t.Fatalf("%q is %v %q", args, kind, name)
		}
		names, err := GraphNames(args)
		if err == nil && slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "/") }) {
			t.Fatalf("%q are %q", args, names)
		}
	})
}
