// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestOverrides: what a deployment writes for Grove lies over the constraints that Trellis renders.
func TestOverrides(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
  providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {template: {topologyConstraint: {pack: {preferred: block}}}}}}
  services:
    Deep:
      componentType: worker
      multinode:
        nodeCount: 2
        leader: {providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {topologyName: other, pack: {required: host}}}}}
      providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueScalingGroupConfig, value: {topologyConstraint: {topologyName: grove-topology, pack: {required: rack}}}}
    Flat:
      componentType: worker
      topologyConstraint: {packDomain: rack}
      providerOverride: {apiVersion: grove.io/v1alpha1, value: {replicas: 3}}`)
	g := providertest.Grove(t, dgd)
	g.Overrides = render.GroveOverrides(dgd)
	template := grove.Render(g, grove.Schema{Shape: grove.ShapePack}).Spec.Template
	got := map[string]*grove.TopologyConstraint{"set": template.TopologyConstraint, "Deep": template.PodCliqueScalingGroups[0].TopologyConstraint}
	for i := range template.Cliques {
		got[template.Cliques[i].Name] = template.Cliques[i].TopologyConstraint
	}
	want := map[string]*grove.TopologyConstraint{
		"set":      {TopologyName: "grove-topology", Pack: &grove.Pack{Required: "zone", Preferred: "block"}},
		"Deep":     {TopologyName: "grove-topology", Pack: &grove.Pack{Required: "rack"}},
		"deep-ldr": {TopologyName: "other", Pack: &grove.Pack{Required: "host"}},
		"deep-wkr": nil,
		"flat":     {TopologyName: "grove-topology", Pack: &grove.Pack{Required: "rack"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constraints (-want +got):\n%s", diff)
	}
}

// TestOverridesOfRoles: they lie over the constraints of the cliques, and win over those of the fields that roles has replaced.
func TestOverridesOfRoles(t *testing.T) {
	const other = "{providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {topologyName: former, pack: {required: host}}}}}"
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    Deep:
      componentType: worker
      multinode: {nodeCount: 2, leader: `+other+`, worker: `+other+`}
      roles:
      - {name: worker}
      - {name: leader, providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {topologyName: mine, pack: {required: rack}}}}}`)
	g := providertest.Grove(t, dgd)
	g.Overrides = render.GroveOverrides(dgd)
	got := map[string]*grove.TopologyConstraint{}
	for _, clique := range grove.Render(g, grove.Schema{Shape: grove.ShapePack}).Spec.Template.Cliques {
		got[clique.Name] = clique.TopologyConstraint
	}
	want := map[string]*grove.TopologyConstraint{
		"deep-ldr": {TopologyName: "mine", Pack: &grove.Pack{Required: "rack"}},
		"deep-wkr": {TopologyName: "former", Pack: &grove.Pack{Required: "host"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constraints (-want +got):\n%s", diff)
	}
}

// TestUpdateStrategy: it is written where this Grove has the field.
func TestUpdateStrategy(t *testing.T) {
	g := providertest.Grove(t, providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker}}}"))
	for name, c := range map[string]struct {
		asked string
		known bool
		want  *grove.UpdateStrategy
	}{
		"nothing asked":     {"", true, nil},
		"asked and known":   {render.GroveOnDelete, true, &grove.UpdateStrategy{Type: "OnDelete"}},
		"asked and unknown": {render.GroveOnDelete, false, nil},
	} {
		g.UpdateStrategy = c.asked
		if diff := cmp.Diff(c.want, grove.Render(g, grove.Schema{UpdateStrategy: c.known}).Spec.UpdateStrategy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
