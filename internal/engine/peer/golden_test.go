// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/engine/grove"
	"github.com/trellis-k8s/trellis/internal/engine/kai"
	"github.com/trellis-k8s/trellis/internal/engine/peer"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden shows every object that is made for testdata/deployment.yaml and its topology, in full, for each engine.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dgd := peertest.Deployment(t, string(raw))
	k, g := peertest.KAI(t, dgd), peertest.Grove(t, dgd)
	topology, err := kai.RenderTopology(peertest.Topology())
	if err != nil {
		t.Fatal(err)
	}
	binding, err := grove.RenderBinding(peertest.Topology(), topology.Name)
	if err != nil {
		t.Fatal(err)
	}
	sets := peertest.Sets(k.Groups, k.Join)
	gated := peertest.Sets(peertest.Groups(t, dgd, "Gates"), nil)
	for name, objects := range map[string][]any{
		"kai":                {topology, kai.RenderPodGroup(k)},
		"lws-under-kai":      {sets[0]},
		"lws-under-gates":    {gated[0]},
		"grove-pack":         {binding, grove.Render(g, grove.Dialect{Shape: grove.ShapePack})},
		"grove-topologyName": {onlyConstraints(grove.Render(g, grove.Dialect{Shape: grove.ShapeNamed}))},
		"grove-packDomain":   {onlyConstraints(grove.Render(g, grove.Dialect{Shape: grove.ShapePackDomain}))},
	} {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join("testdata", name+".yaml"), objects) })
	}
}

// onlyConstraints leaves out the pods, which are the same in every shape.
func onlyConstraints(pcs *grove.PodCliqueSet) any {
	type part struct {
		Name       string                    `json:"name"`
		Constraint *grove.TopologyConstraint `json:"topologyConstraint,omitempty"`
	}
	out := []part{{pcs.Name, pcs.Spec.Template.TopologyConstraint}}
	for _, group := range pcs.Spec.Template.PodCliqueScalingGroups {
		out = append(out, part{group.Name, group.TopologyConstraint})
	}
	for _, clique := range pcs.Spec.Template.Cliques {
		out = append(out, part{clique.Name, clique.TopologyConstraint})
	}
	return out
}

func golden(t *testing.T, file string, objects []any) {
	t.Helper()
	var documents []string
	for _, object := range objects {
		if u, err := peer.Object(object); err == nil {
			object = u.Object // as it is sent
		}
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(raw))
	}
	got := strings.Join(documents, "---\n")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what it was (go test ./internal/engine/peer -update rewrites it; -want +got):\n%s", file, diff)
	}
}
