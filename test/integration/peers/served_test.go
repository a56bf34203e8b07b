// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/grove/workload"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestSchemas: the shape is read from what is served.
func TestSchemas(t *testing.T) {
	want := map[grove.Shape]grove.Schema{
		grove.ShapePack:       {Shape: grove.ShapePack, UpdateStrategy: true},
		grove.ShapeNamed:      {Shape: grove.ShapeNamed, UpdateStrategy: true},
		grove.ShapePackDomain: {Shape: grove.ShapePackDomain, Domains: []string{"region", "zone", "datacenter", "block", "rack", "host", "numa"}, UpdateStrategy: true},
	}
	apis, err := readAPIs()
	if err != nil {
		t.Fatal(err)
	}
	for shape, schema := range want {
		got, served := grove.ReadSchema(apis.groves[shape])
		if diff := cmp.Diff(schema, got); diff != "" || !served {
			t.Errorf("%s, served %v (-want +got):\n%s", shape, served, diff)
		}
	}
	older := apis.groves[grove.ShapePackDomain]
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

// TestKAIIsNewEnough: the definition of today has all that is used; one without it is reported.
func TestKAIIsNewEnough(t *testing.T) {
	crd, err := definition("kai/scheduling.run.ai_podgroups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if why := kai.Served(crd); why != "" {
		t.Error(why)
	}
	older := crd.DeepCopy()
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "minSubGroup")
	if why := kai.Served(older); !strings.Contains(why, "has no minSubGroup; KAI 0.15 or newer") {
		t.Errorf("without minSubGroup: %q", why)
	}
	older = crd.DeepCopy()
	delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["subGroups"].Items.Schema.Properties, "parent")
	if why := kai.Served(older); !strings.Contains(why, "has no parent") {
		t.Errorf("without parent: %q", why)
	}
	older.Spec.Versions[0].Served = false
	if why := kai.Served(older); !strings.Contains(why, "not served in version v2alpha2") {
		t.Errorf("not served: %q", why)
	}
}

func TestGroveProbe(t *testing.T) {
	empty := fake.NewClientBuilder().WithScheme(operator.NewScheme()).Build()
	state, err := workload.New(empty, empty).Probe(t.Context())
	if err != nil || state.Ready || state.Reason != nvidiav1alpha1.ReasonAPINotServed {
		t.Errorf("not served: %+v %v", state, err)
	}
}

func TestMakerProbe(t *testing.T) {
	today, err := definition("lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := func(edit func(*apiextensionsv1.CustomResourceDefinition)) ctrlclient.Object {
		out := today.DeepCopy()
		edit(out)
		return out
	}
	worker := func(c *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
		return c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["leaderWorkerTemplate"].Properties["workerTemplate"]
	}
	cases := map[string]struct {
		objects         []ctrlclient.Object
		reason, message string
	}{
		"not installed": {nil, nvidiav1alpha1.ReasonAPINotServed, "is not served; install LeaderWorkerSet"},
		"switched off": {[]ctrlclient.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = false })},
			nvidiav1alpha1.ReasonAPINotServed, "not served in version v1"},
		"gates dropped": {[]ctrlclient.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(worker(c).Properties["spec"].Properties, "schedulingGates")
		})}, nvidiav1alpha1.ReasonFieldsDropped, "has no spec.leaderWorkerTemplate.workerTemplate.spec.schedulingGates"},
		"labels dropped": {[]ctrlclient.Object{crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			delete(worker(c).Properties["metadata"].Properties, "labels")
		})}, nvidiav1alpha1.ReasonFieldsDropped, "has no spec.leaderWorkerTemplate.workerTemplate.metadata.labels"},
		"as it is today": {[]ctrlclient.Object{crd(func(*apiextensionsv1.CustomResourceDefinition) {})}, nvidiav1alpha1.ReasonProviderAvailable, ""},
	}
	for name, c := range cases {
		reader := fake.NewClientBuilder().WithScheme(operator.NewScheme()).WithObjects(c.objects...).Build()
		state, err := maker.New(reader, reader).Probe(t.Context())
		if err != nil || state.Reason != c.reason || !strings.Contains(state.Message, c.message) || state.Ready != (c.message == "") {
			t.Errorf("%s: %+v %v", name, state, err)
		}
	}
}

func TestMakerUnsuited(t *testing.T) {
	want := map[string]string{
		specs.Gates.Name: "", specs.KAI.Name: "",
		specs.PodGroup.Name: "LeaderWorkerSets can be placed by Gates and KAI, not by PodGroup; choose one of them, or remove the annotation trellis.dev/workload",
		specs.Grove.Name:    "LeaderWorkerSets can be placed by Gates and KAI, not by Grove; choose one of them, or remove the annotation trellis.dev/workload",
	}
	got := map[string]string{}
	for name := range want {
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Provider: name, Workload: specs.LeaderWorkerSet}}
		got[name] = maker.Maker{}.Unsuited([]*trellisv1alpha1.ScalingGroup{sg})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
