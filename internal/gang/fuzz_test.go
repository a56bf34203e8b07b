// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// FuzzPath reads any text as the path of a domain, as it is stored in a status: it is written as it was read.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"", "zone-a/rack-1", "/", "//", "a/", "é/\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := topology.ParsePath(text).String(); got != text {
			t.Fatalf("%q is read as %q", text, got)
		}
	})
}
