// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestGolden shows every object that is made for testdata/deployment.yaml and its topology, in full, for each provider.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dgd := providertest.Deployment(t, string(raw))
	k, g := providertest.KAI(t, dgd), providertest.Grove(t, dgd)
	topology, err := kai.RenderTopology(providertest.Topology())
	if err != nil {
		t.Fatal(err)
	}
	binding, err := grove.RenderBinding(providertest.Topology(), topology.Name)
	if err != nil {
		t.Fatal(err)
	}
	sets := providertest.Sets(k.Groups, k.Prepare)
	gated := providertest.Sets(providertest.Groups(t, dgd, "Gates"), nil)
	for name, objects := range map[string][]any{
		"kai":                {topology, kai.RenderPodGroup(k)},
		"lws-under-kai":      {sets[0]},
		"lws-under-gates":    {gated[0]},
		"grove-pack":         {binding, grove.Render(g, grove.Schema{Shape: grove.ShapePack})},
		"grove-topologyName": {onlyConstraints(grove.Render(g, grove.Schema{Shape: grove.ShapeNamed}))},
		"grove-packDomain":   {onlyConstraints(grove.Render(g, grove.Schema{Shape: grove.ShapePackDomain}))},
	} {
		t.Run(name, func(t *testing.T) { golden.Check(t, filepath.Join("testdata", name+".yaml"), documents(t, objects)) })
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

// documents are the objects as they are sent.
func documents(t *testing.T, objects []any) string {
	t.Helper()
	var out []string
	for _, object := range objects {
		if u, err := external.Object(object); err == nil {
			object = u.Object
		}
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return strings.Join(out, "---\n")
}
