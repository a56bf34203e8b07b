// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// apply creates the objects of a file as kubectl does after a user filled in the blanks. Kinds that the cluster does not have are left out.
func (w *world) apply(file string) {
	w.t.Helper()
	w.applyText(w.filledIn(file))
}

func (w *world) filledIn(file string) string {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.NewReplacer(
		"${K8S_NAMESPACE}", w.name, "<your-namespace>", w.name, "this-namespace", w.name, "${STORAGE_CLASS_NAME}", "shared",
		"${DYNAMO_IMAGE}", "example.com/dynamo:1", "${DYNAMO_VLLM_IMAGE}", "example.com/vllm:1", "${IMAGE}", "example.com/vllm:1",
		"${MODEL_NAME}", "tiny/model", "<your-registry>", "example.com",
	).Replace(string(raw))
}

// applyText creates the objects of a text.
func (w *world) applyText(text string) {
	w.t.Helper()
	for _, o := range w.objectsIn(text) {
		w.applyObject(o)
	}
}

func (w *world) objectsIn(text string) []*unstructured.Unstructured {
	w.t.Helper()
	var out []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			w.t.Fatalf("%v in:\n%s", err, text)
		}
		if o.Object != nil {
			out = append(out, o)
		}
	}
}

func (w *world) applyObject(o *unstructured.Unstructured) {
	w.t.Helper()
	if w.bindings && o.GetKind() == grovev1alpha1.KindClusterTopology {
		o.SetKind(grovev1alpha1.KindClusterTopologyBinding)
	}
	mapping, err := w.c.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) {
		w.t.Logf("%s %s: the cluster has no such kind", o.GetKind(), o.GetName())
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		o.SetNamespace(w.name)
	}
	if err := w.c.Create(w.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}
