// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/graph"
)

// TestGroveWithoutMultinode: Grove's webhook writes 15m0s where 15m was sent; a deployment of single-node services is made, serves and scales.
func TestGroveWithoutMultinode(t *testing.T) {
	w := newWorld(t, "plain")
	w.deploy(graph.EngineGrove, "zone", "", services{"Frontend": frontend(1)})
	w.set("g in one zone\n  frontend 1 (least 1) in one zone")
	w.groveServes()
	w.serves()
	w.scale("Frontend", 3)
	w.groveWants("frontend", 3)
	w.groveServes()
	w.serves()
}
