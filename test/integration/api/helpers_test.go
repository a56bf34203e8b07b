// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const namespace = "default"

// refusal is what a user reads: the field at fault and the words. The zero refusal means acceptance.
type refusal struct {
	path string
	text string
}

func (r refusal) check(t *testing.T, err error) {
	t.Helper()
	switch {
	case r == refusal{} && err != nil:
		t.Fatalf("refused: %v", err)
	case r == refusal{}:
		return
	case err == nil:
		t.Fatalf("accepted, want a refusal at %s: %s", r.path, r.text)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < 400 || status.Status().Code > 499 {
		t.Errorf("want a 4xx, got %v", err)
	}
	if got := err.Error(); !strings.Contains(got, r.path+":") || !strings.Contains(got, r.text) {
		t.Errorf("want a refusal at %s: %s\ngot %.2000s", r.path, r.text, got)
	}
}

// object reads a manifest and lays patches over it, each a YAML merge patch (null removes).
func object(t *testing.T, text string, patches ...string) *unstructured.Unstructured {
	t.Helper()
	content := manifest.Parse(t, text)
	for _, patch := range patches {
		merge(content, manifest.Parse(t, patch))
	}
	return &unstructured.Unstructured{Object: content}
}

// merge is RFC 7386.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		changes, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, changes)
		default:
			into[key] = value
		}
	}
}

func objectsOf(of schema.GroupVersionResource) dynamic.ResourceInterface {
	if of == deployments || of == adapters || of == groups {
		return client.Resource(of).Namespace(namespace)
	}
	return client.Resource(of)
}

// create asks the API server as a strict client does: unknown fields are errors.
func create(t *testing.T, of schema.GroupVersionResource, obj *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	created, err := objectsOf(of).Create(t.Context(), obj, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if err == nil && len(dryRun) == 0 {
		t.Cleanup(func() {
			_ = objectsOf(of).Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{})
		})
	}
	return created, err
}

func mustCreate(t *testing.T, of schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := create(t, of, obj)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// patch sends a YAML merge patch.
func patch(t *testing.T, of schema.GroupVersionResource, name, change string, subresources ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	return patchThrough(t, objectsOf(of), name, change, subresources...)
}

func patchThrough(t *testing.T, objects dynamic.ResourceInterface, name, change string, subresources ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(change))
	if err != nil {
		t.Fatal(err)
	}
	return objects.Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, subresources...)
}

// objectName makes a name from a test's: cases run on objects of their own.
func objectName(t *testing.T) string {
	name := strings.ToLower(filepath.Base(t.Name()))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return strings.Trim(name[:min(len(name), 60)], "-")
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// waitServed returns when the API server answers for all of these kinds: it says that a definition is established a
// moment before it serves it.
func waitServed(ctx context.Context, kinds ...schema.GroupVersionResource) error {
	for _, kind := range kinds {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := objectsOf(kind).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", kind.Resource, err)
		}
	}
	return nil
}
