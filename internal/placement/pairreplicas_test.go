// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestPairingKeepsAnchors: the rest of a release that was cut short has its domain before replicas that may go elsewhere.
func TestPairingKeepsAnchors(t *testing.T) {
	ls := levels("rack")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{
		componentOf("decode", 0, none, 2, 2, gpus(8)), {Name: "prefill", Required: none, Preferred: none, Placed: 1}}}
	half := &g.Components[0].Waiting[1]
	half.Anchor, half.Pods = topology.Path{"r1"}, half.Pods[:1]
	inRoles(&g, 0, true)
	g.Pairing.At = []Paired{{Role: Prefill, Domain: topology.Path{"r1"}}}
	r := PlanGraph(clusterOf(ls, "a r1 8", "b r1 8", "c r2 8"), g, Options{})
	if diff := cmp.Diff("decode-1 r1: a", summary(r)[1]); diff != "" {
		t.Errorf("%s\n%v %v", diff, summary(r), refusals(r))
	}
}
