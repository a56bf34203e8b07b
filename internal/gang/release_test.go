// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// The widest pin of a preemptor keeps what is read from pins later: the graph's domain, that which a replica is
// spread to, and that of a single-node component.
func TestWidest(t *testing.T) {
	const zone, rack = 0, 1
	spread := func(required, preferred int) *placement.Spread {
		return &placement.Spread{Required: required, Preferred: preferred}
	}
	components := []placement.Component{
		{Name: "Deep", Multinode: true}, {Name: "Flat"},
		{Name: "OverZones", Multinode: true, Spread: spread(zone, topology.NoLevel)}, {Name: "OverRacks", Multinode: true, Spread: spread(rack, topology.NoLevel)},
		{Name: "RatherOverZones", Multinode: true, Spread: spread(topology.NoLevel, zone)},
	}
	for name, c := range map[string]struct {
		required  int
		component string
		want      topology.Path
	}{
		"multinode, in the graph's zone": {zone, "Deep", topology.Path{"a"}},
		"multinode, the graph anywhere":  {topology.NoLevel, "Deep", topology.Path{}},
		"single-node":                    {topology.NoLevel, "Flat", topology.Path{"a", "r1"}},
		"spread over zones":              {topology.NoLevel, "OverZones", topology.Path{"a"}},
		"spread over the graph's racks":  {zone, "OverRacks", topology.Path{"a", "r1"}},
		"spread over zones if possible":  {topology.NoLevel, "RatherOverZones", topology.Path{}},
	} {
		r := &Request{Graph: placement.Demand{Required: c.required, Components: components}}
		if got := r.widest(r.component(c.component), placement.ReplicaResult{Component: c.component, Domain: topology.Path{"a", "r1"}}); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A replica whose former domain is known down to a broader level only has moved when it leaves that.
func TestMovedFromAShortenedDomain(t *testing.T) {
	c := topology.NewCluster()
	for name, hint := range map[string]topology.Path{"a": {"a"}, "a/r1": {"a", "r1"}, "b": {"b"}, "a/r2": {"a", "r2"}} {
		r := &Request{Graph: placement.Demand{
			Required: topology.NoLevel, Preferred: topology.NoLevel, Levels: topology.Levels{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "rack"}},
			Components: []placement.Component{{Name: "Worker", Required: 1, Preferred: topology.NoLevel, Waiting: []placement.Replica{{Hint: hint}}}},
		}}
		moved := r.Moved(c, placement.ReplicaResult{Component: "Worker", Domain: topology.Path{"a", "r1"}})
		if want := name == "b" || name == "a/r2"; (moved != "") != want {
			t.Errorf("from %s to a/r1: %q", name, moved)
		}
	}
}
