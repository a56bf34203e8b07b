// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// BenchmarkResolve renders the largest example, which was written in v1alpha1.
func BenchmarkResolve(b *testing.B) {
	dgd := deploymentsIn(b, "testdata/graphs/everything.yaml")[0]
	in := Inputs{Topology: hallOne(b), Provider: specs.Gates.Name}
	for b.Loop() {
		if _, err := Resolve(dgd, in); err != nil {
			b.Fatal(err)
		}
	}
}
