// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var betaDeployments = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1beta1", Resource: "dynamographdeployments"}

// betaManifests are our own of v1beta1 and, where they lie beside the repository, those that users have today.
func betaManifests(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, dir := range []string{filepath.Join("testdata", "v1beta1"), filepath.Join(sharedDir, "manifests", "v1beta1")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, obj := range deploymentsIn(t, file) {
				obj.SetNamespace("")
				found[filepath.Base(file)+"/"+obj.GetName()] = obj
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no manifests of v1beta1")
	}
	return found
}

// TestV1beta1ManifestsApplyUnchanged: a manifest of v1beta1 is taken as it is, stored, and read back in both versions; in its own with
// everything that was written.
func TestV1beta1ManifestsApplyUnchanged(t *testing.T) {
	beta := client.Resource(betaDeployments).Namespace(namespace)
	for name, obj := range betaManifests(t) {
		t.Run(name, func(t *testing.T) {
			_, err := beta.Create(t.Context(), obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = beta.Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{}) })
			read, err := beta.Get(t.Context(), obj.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, loss := range losses("", obj.Object, read.Object) {
				t.Error("there and back dropped or changed " + loss)
			}
			alpha, err := objectsOf(deployments).Get(t.Context(), obj.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			components, _, _ := unstructured.NestedSlice(obj.Object, "spec", "components")
			if services, _, _ := unstructured.NestedMap(alpha.Object, "spec", "services"); len(services) != len(components) {
				t.Errorf("%d services of %d components", len(services), len(components))
			}
			if _, err := objectsOf(deployments).Patch(t.Context(), obj.GetName(), "application/merge-patch+json", []byte(`{"status":{"state":"pending"}}`), metav1.PatchOptions{}, "status"); err != nil {
				t.Errorf("writing the status in v1alpha1: %v", err)
			}
		})
	}
}
