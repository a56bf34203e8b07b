// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// constraints of a deployment with components Decode (multinode) and Frontend.
type constraints struct {
	topology, graph, graphPreferred, decode, decodePreferred string
}

func (c constraints) deployment() *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := graphOf("llm", map[string]int32{"Decode": 2, "Frontend": 1})
	if c.topology != "" || c.graph != "" || c.graphPreferred != "" {
		dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: c.topology, PackDomain: c.graph, PreferredPackDomain: c.graphPreferred}
	}
	if c.decode != "" || c.decodePreferred != "" {
		dgd.Spec.Services["Decode"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: c.decode, PreferredPackDomain: c.decodePreferred}
	}
	return dgd
}

// domains of a resolved topology: graph, graph preferred, own, own preferred.
func domains(t *trellisv1alpha1.ResolvedTopology) string {
	if t == nil {
		return "none"
	}
	return strings.Join([]string{t.ClusterTopology, t.GraphPackDomain, t.GraphPreferredPackDomain, t.PackDomain, t.PreferredPackDomain}, "|")
}

func TestTopology(t *testing.T) {
	old := &trellisv1alpha1.ResolvedTopology{ClusterTopology: "old", Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "z"}}, GraphPackDomain: "zone"}
	oldDecode := old.DeepCopy()
	oldDecode.PackDomain = "rack"
	tests := map[string]struct {
		constraints
		frozen           map[string]*trellisv1alpha1.ResolvedTopology
		noTopology       bool
		decode, frontend string
	}{
		"no constraint":                   {decode: "none", frontend: "none"},
		"a topology alone packs nothing":  {constraints: constraints{topology: "hall-one"}, decode: "hall-one||||", frontend: "hall-one||||"},
		"inherited":                       {constraints: constraints{topology: "hall-one", graph: "zone"}, decode: "hall-one|zone|||", frontend: "hall-one|zone|||"},
		"one service":                     {constraints: constraints{topology: "hall-one", decode: "rack"}, decode: "hall-one|||rack|", frontend: "hall-one||||"},
		"all four":                        {constraints: constraints{"hall-one", "zone", "block", "block", "rack"}, decode: "hall-one|zone|block|block|rack", frontend: "hall-one|zone|block||"},
		"frozen wins":                     {constraints: constraints{topology: "hall-one", graph: "block"}, frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Decode": oldDecode, "Frontend": old}, noTopology: true, decode: "old|zone||rack|", frontend: "old|zone|||"},
		"frozen as none":                  {constraints: constraints{topology: "hall-one", graph: "block"}, frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Decode": nil, "Frontend": nil}, decode: "none", frontend: "none"},
		"half frozen: levels of siblings": {constraints: constraints{topology: "hall-one", graph: "block", decode: "zone"}, frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Frontend": old}, decode: "old|zone||zone|", frontend: "old|zone|||"},
		"half frozen as none":             {constraints: constraints{topology: "hall-one", graph: "block"}, frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Frontend": nil}, noTopology: true, decode: "none", frontend: "none"},
		"frozen for no service of it":     {constraints: constraints{topology: "hall-one", graph: "zone"}, frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Other": nil}, decode: "hall-one|zone|||", frontend: "hall-one|zone|||"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := Inputs{Topology: hallOne(t), Frozen: tc.frozen}
			if tc.noTopology {
				in.Topology = nil
			}
			g, err := Resolve(hub.Of(tc.deployment()), in)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{domains(g.Components[0].Topology), domains(g.Components[1].Topology)}
			if diff := cmp.Diff([]string{tc.decode, tc.frontend}, got); diff != "" {
				t.Errorf("Decode, Frontend (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTopologyErrors(t *testing.T) {
	tests := map[string]struct {
		constraints
		noTopology bool
		kind       error
		want       string
	}{
		"no name": {constraints: constraints{decode: "rack"}, kind: constraint.ErrNoTopologyName,
			want: "spec.topologyConstraint.topologyProfile: topologyProfile is required when any topology constraint is set (at spec or service level); name a ClusterTopology"},
		"no topology": {constraints: constraints{topology: "hall-one", graph: "zone"}, noTopology: true, kind: constraint.ErrTopologyNotFound,
			want: `spec.topologyConstraint.topologyProfile: ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource "hall-one" but it was not found, nor a ClusterTopologyBinding of that name; ask a cluster admin to create it, or name one that exists (kubectl get clustertopologies)`},
		"another topology": {constraints: constraints{topology: "hall-two", graph: "zone"}, kind: constraint.ErrTopologyNotFound, want: `"hall-two" but it was not found`},
		"unknown at the deployment": {constraints: constraints{topology: "hall-one", graph: "row"}, kind: constraint.ErrUnknownDomain,
			want: `spec.topologyConstraint.packDomain: packDomain not found in cluster topology: domain "row" does not exist in ClusterTopology "hall-one"; available domains: [zone, block, rack, host]`},
		"unknown at a service":           {constraints: constraints{topology: "hall-one", decode: "row"}, kind: constraint.ErrUnknownDomain, want: `spec.services[Decode].topologyConstraint.packDomain: packDomain not found`},
		"unknown preferred":              {constraints: constraints{topology: "hall-one", decodePreferred: "row"}, kind: constraint.ErrUnknownDomain, want: `spec.services[Decode].topologyConstraint.preferredPackDomain: `},
		"unknown preferred at the graph": {constraints: constraints{topology: "hall-one", graphPreferred: "row"}, kind: constraint.ErrUnknownDomain, want: `spec.topologyConstraint.preferredPackDomain: `},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := Inputs{Topology: hallOne(t)}
			if tc.noTopology {
				in.Topology = nil
			}
			g, err := Resolve(hub.Of(tc.deployment()), in)
			if g != nil || !errors.Is(err, tc.kind) || !strings.Contains(field.ErrorIn(err, "v1alpha1"), tc.want) {
				t.Errorf("graph %v, error %v, want %q", g, err, tc.want)
			}
			if typed := new(Error); !errors.As(err, &typed) {
				t.Error("not an *Error")
			}
		})
	}
}

// TestFrozenIsNotShared: what Resolve returns can be changed without changing what it was given.
func TestFrozenIsNotShared(t *testing.T) {
	frozen := &trellisv1alpha1.ResolvedTopology{ClusterTopology: "old", Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone"}}}
	g, err := Resolve(hub.Of(constraints{}.deployment()), Inputs{Frozen: map[string]*trellisv1alpha1.ResolvedTopology{"Decode": frozen}})
	if err != nil {
		t.Fatal(err)
	}
	g.Components[0].Topology.Levels[0].Domain = "changed"
	g.ScalingGroups()[1].Spec.Topology.Levels[0].Domain = "changed"
	if frozen.Levels[0].Domain != "zone" || g.Components[1].Topology.Levels[0].Domain != "zone" {
		t.Error("levels are shared")
	}
}
