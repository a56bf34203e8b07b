// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
)

func schemaOf(t *testing.T, shape grove.Shape) grove.Schema {
	t.Helper()
	d, served := grove.ReadSchema(groves[shape])
	if !served {
		t.Fatalf("%s: not served", shape)
	}
	return d
}

// TestSchemas: the shape is read from what is served.
func TestSchemas(t *testing.T) {
	want := map[grove.Shape]grove.Schema{
		grove.ShapePack:       {Shape: grove.ShapePack, UpdateStrategy: true},
		grove.ShapeNamed:      {Shape: grove.ShapeNamed, UpdateStrategy: true},
		grove.ShapePackDomain: {Shape: grove.ShapePackDomain, Domains: []string{"region", "zone", "datacenter", "block", "rack", "host", "numa"}, UpdateStrategy: true},
	}
	for shape, schema := range want {
		if diff := cmp.Diff(schema, schemaOf(t, shape)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", shape, diff)
		}
	}
	older := groves[grove.ShapePackDomain].DeepCopy()
	spec := older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	template := spec.Properties["template"]
	delete(template.Properties, "topologyConstraint")
	if d, _ := grove.ReadSchema(older); d.Shape != grove.ShapeNone {
		t.Errorf("before there were constraints: %v", d)
	}
	older.Spec.Versions[0].Served = false
	if _, served := grove.ReadSchema(older); served {
		t.Error("a version that is not served has no schema")
	}
	if _, served := grove.ReadSchema(&apiextensionsv1.CustomResourceDefinition{}); served {
		t.Error("no version, no schema")
	}
}

// TestPodCliqueSets: every release takes its own schema whole, and refuses or drops another's, which is why it is read.
func TestPodCliqueSets(t *testing.T) {
	g := providertest.Grove(t, deployment(t, "shapes"))
	for shape := range groves {
		created := accepted(t, sent(t, grove.Render(g, schemaOf(t, shape)), shape))
		if sketch := providertest.SketchGrove(read[grove.PodCliqueSet](t, created)); !strings.Contains(sketch, "decode 2 (least 1) in one block") {
			t.Errorf("%s reads back as\n%s", shape, sketch)
		}
	}
	refused(t, sent(t, grove.Render(g, schemaOf(t, grove.ShapeNamed)), grove.ShapePack), "packDomain")
	refused(t, sent(t, grove.Render(g, schemaOf(t, grove.ShapePack)), grove.ShapePackDomain), "pack")
	refused(t, sent(t, grove.Render(g, schemaOf(t, grove.ShapeNamed)), grove.ShapePackDomain), "topologyName")
	refused(t, sent(t, grove.Render(g, schemaOf(t, grove.ShapePack)), grove.ShapeNamed), "pack")
}

// TestTopologyGone plays the scenario of a topology that is deleted under a deployment: available, gone, back.
func TestTopologyGone(t *testing.T) {
	object := accepted(t, sent(t, grove.Render(providertest.Grove(t, deployment(t, "gone")), schemaOf(t, grove.ShapePack)), ""))
	if _, judged := grove.TopologyLevels(read[grove.PodCliqueSet](t, object)); judged {
		t.Error("judged before Grove said anything")
	}
	for _, c := range []struct {
		status, reason, want string
		available            bool
	}{
		{"False", "AllClusterTopologyLevelsAvailable", nvidiav1alpha1.ReasonAllTopologyLevelsAvailable, true},
		{"True", "ClusterTopologyLevelsUnavailable", nvidiav1alpha1.ReasonTopologyLevelsUnavailable, false},
		{"Unknown", "ClusterTopologyNotFound", nvidiav1alpha1.ReasonTopologyDefinitionNotFound, false},
		{"False", "AllClusterTopologyLevelsAvailable", nvidiav1alpha1.ReasonAllTopologyLevelsAvailable, true},
	} {
		object = status(t, object, `
  availableReplicas: 0
  updatedReplicas: 0
  conditions: [{type: TopologyLevelsUnavailable, status: "`+c.status+`", reason: `+c.reason+`, message: words, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]`)
		got, judged := grove.TopologyLevels(read[grove.PodCliqueSet](t, object))
		if !judged || got.Reason != c.want || got.Available != c.available {
			t.Errorf("%s/%s reads as %+v (judged %v)", c.status, c.reason, got, judged)
		}
	}
}

// TestServicesOfGrove reads the counts of the objects that Grove makes.
func TestServicesOfGrove(t *testing.T) {
	g := providertest.Grove(t, deployment(t, "counts"))
	pcs := grove.Render(g, schemaOf(t, grove.ShapePack))
	made := groveMakes(t, namespace, "counts", pcs.Spec.Template.Cliques[2], "counts-0-frontend")
	clique := read[grove.PodClique](t, status(t, made, `
  {observedGeneration: 1, replicas: 2, readyReplicas: 2, scheduledReplicas: 2, updatedReplicas: 2, scheduleGatedReplicas: 0}`))
	if s := grove.SingleNode(g, g.Groups[1], clique); !s.Done || s.Name != made.GetName() || s.Waiting != "" {
		t.Errorf("frontend: %+v", s)
	}

	made = groveMakesGroup(t, namespace, "counts", "counts-0-decode", 2, "decode-ldr", "decode-wkr")
	decode := read[grove.PodCliqueScalingGroup](t, status(t, made, `
  {observedGeneration: 1, replicas: 2, availableReplicas: 1, scheduledReplicas: 1, updatedReplicas: 2}`))
	s := grove.Multinode(g, g.Groups[0], decode)
	if s.Done || s.Name != made.GetName() || s.Waiting != "PodCliqueScalingGroup counts-0-decode: 1 of 2 replicas scheduled" {
		t.Errorf("decode: %+v", s)
	}
	for _, scale := range grove.Scales(g) {
		if scale.Name != "counts-0-frontend" && scale.Name != "counts-0-decode" {
			t.Errorf("no such object to scale: %+v", scale)
		}
	}
}

// TestBinding is taken whole, and levels may change later.
func TestBinding(t *testing.T) {
	ct := providertest.Topology()
	ct.Name = "binding"
	binding, err := grove.RenderBinding(ct, ct.Name)
	if err != nil {
		t.Fatal(err)
	}
	created := accepted(t, sent(t, binding, ""))
	if drift := grove.BindingDrift(ct, read[grove.ClusterTopologyBinding](t, created)); drift != "" {
		t.Error(drift)
	}
	ct.Spec.Levels = ct.Spec.Levels[1:]
	shorter, err := grove.RenderBinding(ct, ct.Name)
	if err != nil {
		t.Fatal(err)
	}
	changed := apply(t, sent(t, shorter, ""), "trellis")
	if levels := read[grove.ClusterTopologyBinding](t, changed).Spec.Levels; len(levels) != 3 {
		t.Errorf("levels are %v", levels)
	}
}
