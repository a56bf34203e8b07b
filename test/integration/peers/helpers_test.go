// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// mixed has all there is: both places of a constraint, required and preferred, a gang and single pods.
const mixed = `
metadata: {name: NAME, namespace: default, annotations: {nvidia.com/kai-scheduler-queue: serving}}
spec:
  priorityClassName: inference
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone, preferredPackDomain: block}
  services:
    Decode:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 3}
      topologyConstraint: {packDomain: block, preferredPackDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.sglang], args: [--tp, "24"]}}
    Frontend: {componentType: frontend, replicas: 2}`

func deployment(t *testing.T, name string) *nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	return providertest.Deployment(t, strings.ReplaceAll(mixed, "NAME", name))
}

// resourceOf finds where an object is served; older shapes of Grove are in groups of their own.
func resourceOf(object *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := object.GroupVersionKind()
	resource := resources[gvk.Kind]
	resource.Group = gvk.Group
	if object.GetNamespace() == "" {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(object.GetNamespace())
}

// sent is the object as clients send it, in the group that serves this shape of Grove.
func sent(t *testing.T, typed any, shape grove.Shape) *unstructured.Unstructured {
	t.Helper()
	object, err := external.Object(typed)
	if err != nil {
		t.Fatal(err)
	}
	if object.GetKind() == grove.PodCliqueSetKind.Kind && shape != "" {
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: groves[shape].Spec.Group, Version: "v1alpha1", Kind: object.GetKind()})
	}
	return object
}

// create asks as a strict client does: unknown fields are errors.
func create(t *testing.T, object *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	created, err := resourceOf(object).Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if err == nil && len(dryRun) == 0 {
		t.Cleanup(func() { _ = resourceOf(object).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}) })
	}
	return created, err
}

// accepted fails unless the object is taken whole.
func accepted(t *testing.T, object *unstructured.Unstructured, dryRun ...string) *unstructured.Unstructured {
	t.Helper()
	created, err := create(t, object, dryRun...)
	if err != nil {
		t.Fatalf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
	}
	if at := external.Missing(object, created); at != "" {
		t.Fatalf("%s %s: %s is not kept", object.GetKind(), object.GetName(), at)
	}
	return created
}

func refused(t *testing.T, object *unstructured.Unstructured, words string) {
	t.Helper()
	_, err := create(t, object, metav1.DryRunAll)
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: got %v, want a refusal that says %q", object.GetKind(), err, words)
	}
}

// status writes a status as the peer's operator would, and returns the object read back.
func status(t *testing.T, object *unstructured.Unstructured, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("status:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := resourceOf(object).Patch(t.Context(), object.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, "status")
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func read[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := external.Read(object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// manifests are what users have today, by file and name.
func manifests(t *testing.T) map[string]*nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sharedDir, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Skip("no manifests beside the repository")
	}
	out := map[string]*nvidiav1beta1.DynamoGraphDeployment{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			content := map[string]any{}
			if err := documents.Decode(&content); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if content["kind"] != "DynamoGraphDeployment" || content["apiVersion"] != "nvidia.com/v1alpha1" {
				continue
			}
			text, _ := json.Marshal(content)
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			if err := json.Unmarshal(text, dgd); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			dgd.Namespace = namespace
			out[filepath.Base(file)+"/"+dgd.Name] = hub.Of(dgd)
		}
	}
	return out
}
