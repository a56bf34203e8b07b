// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

var (
	_ conversion.Convertible = (*v1alpha1.DynamoGraphDeployment)(nil)
	_ conversion.Convertible = (*v1alpha1.DynamoGraphDeploymentScalingAdapter)(nil)
	_ conversion.Hub         = (*v1beta1.DynamoGraphDeployment)(nil)
	_ conversion.Hub         = (*v1beta1.DynamoGraphDeploymentScalingAdapter)(nil)
)

// filler fills objects with random values that survive a JSON round trip.
func filler(seed int64) *randfill.Filler {
	free := func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"a":{"b":[1,null]}}`) }
	return randfill.NewWithSeed(seed).NilChance(0.5).NumElements(1, 3).MaxDepth(12).Funcs(
		free,
		func(o *v1alpha1.FreeObject, c randfill.Continue) { free(&o.RawExtension, c) },
		func(o *v1beta1.FreeObject, c randfill.Continue) { free(&o.RawExtension, c) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(5000)), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		func(v *metav1.Time, _ randfill.Continue) { *v = metav1.Unix(1700000000, 0) },
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawBytes([]byte("{}")) },
		func(v *float64, c randfill.Continue) { *v = float64(c.Intn(100)) / 100 },
		func(v *corev1.EnvVar, c randfill.Continue) { v.Name, v.Value = c.String(8), c.String(8) },
		func(v *metav1.ObjectMeta, c randfill.Continue) {
			v.Name, v.Labels = c.String(8), map[string]string{c.String(4): c.String(4)}
		},
	)
}

func TestWholeObjectsComeBack(t *testing.T) {
	for seed := range int64(200) {
		var alpha v1alpha1.DynamoGraphDeployment
		filler(seed).Fill(&alpha)
		alpha.APIVersion, alpha.Kind = "nvidia.com/v1alpha1", "DynamoGraphDeployment"
		comesBack(t, alpha, "v1beta1", "v1alpha1", new(v1beta1.DynamoGraphDeployment))

		var beta v1beta1.DynamoGraphDeployment
		filler(seed).Fill(&beta)
		beta.APIVersion, beta.Kind = "nvidia.com/v1beta1", "DynamoGraphDeployment"
		comesBack(t, beta, "v1alpha1", "v1beta1", new(v1alpha1.DynamoGraphDeployment))

		var adapter v1alpha1.DynamoGraphDeploymentScalingAdapter
		filler(seed).Fill(&adapter)
		adapter.APIVersion, adapter.Kind = "nvidia.com/v1alpha1", "DynamoGraphDeploymentScalingAdapter"
		comesBack(t, adapter, "v1beta1", "v1alpha1", new(v1beta1.DynamoGraphDeploymentScalingAdapter))
	}
}

// comesBack checks that converting there and back is the identity, and that the type in between has every field.
func comesBack(t *testing.T, object any, to, from string, typed any) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	there, err := v1alpha1.ConvertJSON(raw, to)
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(there))
	strict.DisallowUnknownFields()
	if err := strict.Decode(typed); err != nil {
		t.Fatalf("reading what was converted to %s: %v", to, err)
	}
	back, err := v1alpha1.ConvertJSON(there, from)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tree(t, raw), tree(t, back)); d != "" {
		t.Fatalf("there and back (-want +got):\n%s", d)
	}
}

func tree(t *testing.T, raw []byte) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTypedObjects(t *testing.T) {
	var alpha, back v1alpha1.DynamoGraphDeployment
	read(t, `{metadata: {name: llm}, spec: {pvcs: [{name: p}], services: {
		W: {componentType: worker, subComponentType: prefill, annotations: {a: b}, resources: {limits: {gpu: "4", gpuType: amd.com/gpu}}, extraPodSpec: {mainContainer: {name: engine}}},
		F: {componentType: frontend, ingress: {enabled: true, host: h}, labels: {c: d}}, X: {componentType: main, subComponentType: other, dynamoNamespace: ns}}}}`, &alpha)
	var beta v1beta1.DynamoGraphDeployment
	if err := alpha.ConvertTo(&beta); err != nil {
		t.Fatal(err)
	}
	if kind := beta.GroupVersionKind().String(); kind != "nvidia.com/v1beta1, Kind=DynamoGraphDeployment" {
		t.Error(kind)
	}
	if w := beta.Spec.Components[1]; w.Name != "W" || w.Type != v1beta1.ComponentTypePrefill || w.PodTemplate.Spec.Containers[0].Name != v1beta1.MainContainerName {
		t.Errorf("%+v", w)
	}
	only, err := v1alpha1.AlphaOnlyOf(&beta)
	if err != nil {
		t.Fatal(err)
	}
	if only.Deployment == nil || len(only.Deployment.Spec.Services) != 3 {
		t.Errorf("the deployment in v1alpha1: %+v", only.Deployment)
	}
	only.Deployment = nil
	name, namespace := "p", "ns"
	want := v1alpha1.AlphaOnly{PVCs: []v1alpha1.PVC{{Name: &name}}, Services: map[string]v1alpha1.AlphaOnlyService{
		"W": {Annotations: map[string]string{"a": "b"}, GPUResource: "amd.com/gpu", MainContainerName: "engine"},
		"F": {Labels: map[string]string{"c": "d"}, Ingress: &v1alpha1.IngressSpec{Enabled: true, Host: "h"}},
		"X": {ComponentType: "main", SubComponentType: "other", DynamoNamespace: &namespace},
	}}
	if d := cmp.Diff(want, only); d != "" {
		t.Errorf("what only v1alpha1 says (-want +got):\n%s", d)
	}
	if err := back.ConvertFrom(&beta); err != nil {
		t.Fatal(err)
	}
	w := back.Spec.Services["W"]
	if d := cmp.Diff(alpha.Spec.Services["W"].Resources, w.Resources); d != "" || w.ExtraPodSpec.MainContainer.Name != "engine" || len(back.Spec.PVCs) != 1 {
		t.Errorf("there and back: %+v %s", w, d)
	}
	beta.Annotations[v1alpha1.AnnotationSpecMemory] = "broken"
	if v1alpha1.PayloadProblem(&beta) == "" {
		t.Error("a broken payload is no problem")
	}
	if only, err := v1alpha1.AlphaOnlyOf(&beta); err != nil || only.PVCs != nil {
		t.Errorf("from a broken payload: %+v, %v", only, err)
	}
}

func TestTypedAdapters(t *testing.T) {
	var alpha, back v1alpha1.DynamoGraphDeploymentScalingAdapter
	read(t, `{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: a}, spec: {replicas: 2, dgdRef: {name: llm, serviceName: W}}}`, &alpha)
	var beta v1beta1.DynamoGraphDeploymentScalingAdapter
	if err := alpha.ConvertTo(&beta); err != nil {
		t.Fatal(err)
	}
	if beta.Spec.DGDRef.ComponentName != "W" || beta.Spec.Replicas != 2 {
		t.Errorf("%+v", beta.Spec)
	}
	if err := back.ConvertFrom(&beta); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(alpha, back); d != "" {
		t.Error(d)
	}
	if err := back.ConvertFrom(&v1beta1.DynamoGraphDeployment{}); err == nil {
		t.Error("a deployment became an adapter")
	}
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
