// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// picked is a deployment whose workers an endpoint picker picks.
func picked() *nvidiav1beta1.DynamoGraphDeployment {
	dgd := disaggregated()
	picker := nvidiav1beta1.ComponentSpec{Name: "picker", Type: nvidiav1beta1.ComponentTypeEPP}
	picker.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "frontend:1.5.0"}}}}
	dgd.Spec.Components = append(dgd.Spec.Components, picker)
	return dgd
}

func classesOf(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]string {
	out := map[string]string{}
	for name, sg := range groups {
		if class, classed := BuildPod(sg, 0, 0).Labels["nvidia.com/dynamo-component-class"]; classed {
			out[name] = class
		}
	}
	return out
}

// TestComponentClass: an endpoint picker finds the workers of every type by one label.
func TestComponentClass(t *testing.T) {
	labelled := func(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1beta1.DynamoGraphDeployment {
		dgd.Spec.Labels = map[string]string{LabelComponentClass: "mine"}
		return dgd
	}
	for name, test := range map[string]struct {
		dgd  *nvidiav1beta1.DynamoGraphDeployment
		want map[string]string
	}{
		"with an endpoint picker": {picked(), map[string]string{"prefill": "worker", "decode": "worker"}},
		"without one":             {disaggregated(), map[string]string{}},
		"the user's own label, with one": {labelled(picked()),
			map[string]string{"prefill": "worker", "decode": "worker", "frontend": "mine", "picker": "mine"}},
		"the user's own label, without one": {labelled(disaggregated()), map[string]string{"prefill": "mine", "decode": "mine", "frontend": "mine"}},
	} {
		groups := stored(t, test.dgd, nil)
		if diff := cmp.Diff(test.want, classesOf(groups)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, classed := stored(t, picked(), nil)["decode"].Labels[LabelComponentClass]; classed {
		t.Error("the group and its Services have the class, and change with an upgrade")
	}
}

// TestComponentClassOfRunningWorkers: an endpoint picker that is added replaces no worker; what a worker's next change replaces has the class.
func TestComponentClassOfRunningWorkers(t *testing.T) {
	groups := stored(t, disaggregated(), nil)
	added := stored(t, picked(), groups)
	for _, worker := range []string{"prefill", "decode"} {
		if diff := cmp.Diff(groups[worker].Spec, added[worker].Spec); diff != "" {
			t.Errorf("%s, before and after an endpoint picker was added (-before +after):\n%s", worker, diff)
		}
	}
	changed := picked()
	setImage(changed, "prefill", "runtime:1.6.0")
	if diff := cmp.Diff(map[string]string{"prefill": "worker", "decode": "worker"}, classesOf(stored(t, changed, added))); diff != "" {
		t.Errorf("after a change (-want +got):\n%s", diff)
	}
}

// TestGroupsWrittenWithoutClass: groups as commit b01a0d7a wrote them (testdata/classless/picked.yaml, which is never edited) stay as they are, in both
// versions of the API, until a worker changes, and the pool selects their pods.
func TestGroupsWrittenWithoutClass(t *testing.T) {
	groups := storedGroups(t, "testdata/classless/picked.yaml")
	if classes := classesOf(groups); len(classes) > 0 {
		t.Fatalf("the file has the classes %v", classes)
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		if err := json.Unmarshal(convertJSON(t, documentsIn(t, "testdata/pairs/picked."+version+".yaml")[0], "v1beta1"), dgd); err != nil {
			t.Fatal(err)
		}
		dgd.Namespace = "team"
		now := stored(t, dgd, groups)
		for name, sg := range groups {
			if diff := cmp.Diff(sg.Spec, now[name].Spec); diff != "" {
				t.Errorf("%s, %s (-written +now):\n%s", version, name, diff)
			}
		}
		poolSelects(t, dgd, groups, "Decode", "Prefill")
		setImage(dgd, "Decode", "runtime:1.6.0")
		next := stored(t, dgd, groups)
		if diff := cmp.Diff(map[string]string{"Prefill": "worker", "Decode": "worker"}, classesOf(next)); diff != "" {
			t.Errorf("%s: after a change (-want +got):\n%s", version, diff)
		}
		poolSelects(t, dgd, next, "Decode", "Prefill")
	}
}

// poolSelects checks that the pool of a deployment selects the pods of exactly these components.
func poolSelects(t *testing.T, dgd *nvidiav1beta1.DynamoGraphDeployment, groups map[string]*trellisv1alpha1.ScalingGroup, want ...string) {
	t.Helper()
	g, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	var selector map[string]string
	for _, object := range g.Owned() {
		if pool, ok := object.(*unstructured.Unstructured); ok && pool.GetKind() == "InferencePool" {
			selector, _, _ = unstructured.NestedStringMap(pool.Object, "spec", "selector", "matchLabels")
		}
	}
	if len(selector) == 0 {
		t.Fatal("there is no pool that selects anything")
	}
	var selected []string
	for _, s := range g.Components { // by name
		if labels.SelectorFromSet(selector).Matches(labels.Set(BuildPod(groups[s.Name], 0, 0).Labels)) {
			selected = append(selected, s.Name)
		}
	}
	if diff := cmp.Diff(want, selected); diff != "" {
		t.Errorf("pods that %v selects (-want +got):\n%s", selector, diff)
	}
}

// TestPoolSelectsWorkers: of every type, also where v1alpha1 has made a sub-type a type.
func TestPoolSelectsWorkers(t *testing.T) {
	poolSelects(t, picked(), stored(t, picked(), nil), "decode", "prefill")
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	written, err := yaml.YAMLToJSON([]byte(`{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: llm, namespace: team}, spec: {services: {
  front: {componentType: frontend}, pick: {componentType: epp, extraPodSpec: {mainContainer: {image: "frontend:1.5.0"}}},
  decode: {componentType: worker}, prefill: {componentType: prefill}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(convertJSON(t, written, "v1beta1"), dgd); err != nil {
		t.Fatal(err)
	}
	groups := stored(t, dgd, nil)
	if got := groups["prefill"].Labels[LabelComponentType]; got != "prefill" {
		t.Fatalf("the type is %q", got)
	}
	poolSelects(t, dgd, groups, "decode", "prefill")
}

// TestStartedAsTheRuntimeNeeds: what Dynamo starts in another way from a version of the runtime on.
func TestStartedAsTheRuntimeNeeds(t *testing.T) {
	type start struct {
		Failures int32  // of liveness checks of a worker
		Checks   string // the worker's own
		Wait     int32  // of a frontend in seconds until liveness checks begin; 0: none
	}
	for name, test := range map[string]struct {
		image, override string
		want            start
	}{
		"1.4":                       {"runtime:1.4.9", "", start{1, "false", 0}},
		"1.5":                       {"runtime:1.5.0", "", start{3, "true", 0}},
		"a candidate of 1.5":        {"registry.example:5000/runtime:v1.5.0-rc.1", "", start{3, "true", 0}},
		"1.6":                       {"runtime:1.6.0", "", start{3, "true", 300}},
		"not known":                 {"runtime:nightly", "", start{1, "false", 0}},
		"by a digest":               {"runtime@sha256:0", "", start{1, "false", 0}},
		"what the component says":   {"runtime:nightly", "1.6.1", start{3, "true", 300}},
		"it says less than the tag": {"runtime:1.6.0", "1.4.0", start{1, "false", 0}},
	} {
		dgd := disaggregated()
		for _, c := range []string{"decode", "frontend"} {
			setImage(dgd, c, test.image)
			dgd.Component(c).RuntimeVersionOverride = test.override
		}
		groups := stored(t, dgd, nil)
		worker, frontend := BuildPod(groups["decode"], 0, 0), BuildPod(groups["frontend"], 0, 0)
		got := start{Failures: worker.Spec.Containers[0].LivenessProbe.FailureThreshold, Checks: valueOf(worker, "DYN_HEALTH_CHECK_ENABLED")}
		if p := frontend.Spec.Containers[0].StartupProbe; p != nil {
			got.Wait = p.FailureThreshold * p.PeriodSeconds
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if port := valueOf(worker, "DYN_FORWARDPASS_METRIC_PORT"); port != "20380" {
			t.Errorf("%s: a worker publishes what it does at port %q", name, port)
		}
	}
}

// TestSidecarIsOfItsOwnVersion: a frontend alongside a worker starts as its own image needs, not the worker's.
func TestSidecarIsOfItsOwnVersion(t *testing.T) {
	for image, waits := range map[string]bool{"frontend:1.5.0": false, "frontend:1.6.0": true} {
		dgd := disaggregated()
		decode := dgd.Component("decode")
		decode.FrontendSidecar = "front"
		decode.PodTemplate.Spec.Containers = append(decode.PodTemplate.Spec.Containers, corev1.Container{Name: "front", Image: image})
		setImage(dgd, "decode", "runtime:1.6.0")
		pod := BuildPod(stored(t, dgd, nil)["decode"], 0, 0)
		if got := pod.Spec.Containers[1].StartupProbe != nil; got != waits {
			t.Errorf("%s has a startup probe: %v, want %v", image, got, waits)
		}
	}
}

// TestNoMeshForEndpointPickers: they serve TLS themselves. Only what the component itself says of Istio's proxy holds.
func TestNoMeshForEndpointPickers(t *testing.T) {
	for name, test := range map[string]struct {
		own, all string
		want     map[string]string
	}{
		"nothing is said":        {"", "", map[string]string{"picker": "false"}},
		"of all components":      {"", "true", map[string]string{"picker": "false", "frontend": "true", "prefill": "true", "decode": "true"}},
		"of the endpoint picker": {"true", "", map[string]string{"picker": "true"}},
	} {
		dgd := picked()
		if test.own != "" {
			dgd.Component("picker").PodTemplate.Annotations = map[string]string{"sidecar.istio.io/inject": test.own}
		}
		if test.all != "" {
			dgd.Spec.Annotations = map[string]string{"sidecar.istio.io/inject": test.all}
		}
		got := map[string]string{}
		for component, sg := range stored(t, dgd, nil) {
			if inject, said := BuildPod(sg, 0, 0).Annotations["sidecar.istio.io/inject"]; said {
				got[component] = inject
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
