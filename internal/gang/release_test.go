// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// The widest pin of a preemptor keeps what is read from pins later: the graph's domain, and that of a single-node service.
func TestWidest(t *testing.T) {
	services := []placement.Service{{Name: "Deep", Multinode: true}, {Name: "Flat"}}
	for name, c := range map[string]struct {
		required int
		service  string
		want     topology.Path
	}{
		"multinode, in the graph's zone": {0, "Deep", topology.Path{"a"}},
		"multinode, the graph anywhere":  {topology.NoLevel, "Deep", topology.Path{}},
		"single-node":                    {topology.NoLevel, "Flat", topology.Path{"a", "r1"}},
	} {
		r := &Request{Graph: placement.Graph{Required: c.required, Services: services}}
		if got := r.widest(placement.ReplicaResult{Service: c.service, Domain: topology.Path{"a", "r1"}}); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
