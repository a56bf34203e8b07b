// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// A deployment remembers something that is JSON, but nothing of v1alpha1; it was stored while no webhook was asked. It can be mended, and everything else
// of it changed. No one can make another one.
func TestUnreadableMemory(t *testing.T) {
	const deleted = "2026-01-01T00:00:00Z"
	graph := func(metadata map[string]any) []byte {
		metadata["name"], metadata["namespace"] = "g", "ns"
		raw, err := json.Marshal(map[string]any{
			"apiVersion": nvidiav1beta1.GroupVersion.String(), "kind": "DynamoGraphDeployment", "metadata": metadata,
			"spec": map[string]any{"components": []any{map[string]any{"name": "W", "replicas": 1, "podTemplate": map[string]any{
				"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "x"}}},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	memory := map[string]any{nvidiav1alpha1.AnnotationSpecMemory: `{"pvcs":"x"}`}
	with := func(key string, value any) map[string]any {
		out := map[string]any{"annotations": memory}
		if key != "" {
			out[key] = value
		}
		return out
	}
	for _, test := range []struct {
		what       string
		was, is    map[string]any
		refused    string
		remembered bool
	}{
		{what: "created", is: with("", nil), refused: "metadata.annotations[nvidia.com/dgd-spec]", remembered: true},
		{what: "a label is set", was: with("", nil), is: with("labels", map[string]any{"a": "b"}), remembered: true},
		{what: "the annotation is removed", was: with("", nil), is: map[string]any{}},
		{what: "the annotation is emptied", was: with("", nil), is: map[string]any{"annotations": map[string]any{nvidiav1alpha1.AnnotationSpecMemory: "{}"}}, remembered: true},
		{
			what: "a finalizer is removed", remembered: true,
			was: map[string]any{"annotations": memory, "deletionTimestamp": deleted, "finalizers": []any{"foregroundDeletion"}},
			is:  with("deletionTimestamp", deleted),
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			kind := metav1.GroupVersionKind(nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Kind: kind, RequestKind: &kind, Name: "g", Operation: admissionv1.Create}}
			if test.was != nil {
				req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: graph(test.was)}
			}
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(graph(test.is)); err != nil {
				t.Fatal(err)
			}
			if err := (deploymentDefaulter{}).Default(admission.NewContextWithRequest(t.Context(), req), object); err != nil {
				t.Fatal(err)
			}
			if _, has := object.GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]; has != test.remembered {
				t.Errorf("annotations after defaulting: %v", object.GetAnnotations())
			}
			var err error
			if req.Object.Raw, err = object.MarshalJSON(); err != nil {
				t.Fatal(err)
			}
			response := (&deploymentValidator{}).Handle(t.Context(), req)
			switch {
			case test.refused == "" && !response.Allowed:
				t.Errorf("refused: %s", response.Result.Message)
			case test.refused != "" && (response.Allowed || !strings.Contains(response.Result.Message, test.refused)):
				t.Errorf("allowed %t, %+v", response.Allowed, response.Result)
			}
		})
	}
}

// What would not fit into the other version's annotations is refused when it is written, and does not block other changes when it is stored.
func TestWhatDoesNotFit(t *testing.T) {
	raw := func(size int) []byte {
		out, err := json.Marshal(map[string]any{
			"apiVersion": nvidiav1beta1.GroupVersion.String(), "kind": "DynamoGraphDeployment",
			"metadata": map[string]any{"name": "g", "annotations": map[string]any{"a": strings.Repeat("x", size)}}, "spec": map[string]any{},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	small, large := raw(1), raw(300_000)
	for _, test := range []struct {
		is, was []byte
		refused bool
	}{{small, nil, false}, {large, nil, true}, {large, small, true}, {large, large, false}, {small, large, false}} {
		if errs := conversionLoses(test.is, test.was); (len(errs) > 0) != test.refused {
			t.Errorf("%d bytes after %d: %v", len(test.is), len(test.was), errs)
		}
	}
}

// A payload that would be ignored is refused when it is written, not when it is there already. What has no room in the annotations of a version is not
// written in that version.
func TestPayloadsThatAreRefused(t *testing.T) {
	raw := func(annotations map[string]string, change string) []byte {
		out, err := json.Marshal(map[string]any{
			"apiVersion": nvidiav1alpha1.GroupVersion.String(), "kind": "DynamoGraphDeployment",
			"metadata": map[string]any{"name": "g", "annotations": annotations}, "spec": map[string]any{"backendFramework": change},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const noJSON, dropped = "x", `{"trellis.dev/memory":{"dropped":true,"from":"v1beta1"}}`
	spec := nvidiav1alpha1.AnnotationSpecMemory
	for name, test := range map[string]struct {
		is, was []byte
		want    string
	}{
		"written":                 {is: raw(map[string]string{spec: noJSON}, ""), want: "metadata.annotations[nvidia.com/dgd-spec]: Invalid value: is not JSON"},
		"that of the status":      {is: raw(map[string]string{nvidiav1alpha1.AnnotationStatusMemory: noJSON}, ""), want: "metadata.annotations[nvidia.com/dgd-status]"},
		"another one":             {is: raw(map[string]string{spec: noJSON}, ""), was: raw(map[string]string{spec: "y"}, ""), want: "is not JSON"},
		"there already":           {is: raw(map[string]string{spec: noJSON}, "vllm"), was: raw(map[string]string{spec: noJSON}, "")},
		"readable":                {is: raw(map[string]string{spec: `{"env":[]}`}, "")},
		"no room, and a change":   {is: raw(map[string]string{spec: dropped}, "vllm"), was: raw(map[string]string{spec: dropped}, ""), want: "write the deployment in v1beta1"},
		"no room, and a creation": {is: raw(map[string]string{spec: dropped}, ""), want: "kubectl edit dynamographdeployments.v1beta1.nvidia.com"},
	} {
		t.Run(name, func(t *testing.T) {
			got := conversionLoses(test.is, test.was).ToAggregate()
			if test.want == "" && got != nil || test.want != "" && (got == nil || !strings.Contains(got.Error(), test.want)) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}
