// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// manifests are our own and, where they lie beside the repository, the samples of what users have today.
func manifests(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, dir := range []string{"testdata", filepath.Join(sharedDir, "manifests")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, obj := range deploymentsIn(t, file) {
				obj.SetNamespace("") // some are made for a namespace of their author's
				found[filepath.Base(file)+"/"+obj.GetName()] = obj
			}
		}
	}
	return found
}

func deploymentsIn(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if obj.Object != nil && obj.GetKind() == "DynamoGraphDeployment" {
			found = append(found, &unstructured.Unstructured{Object: manifest.Parse(t, toJSON(t, obj.Object))})
		}
	}
}

func TestManifestsApplyUnchanged(t *testing.T) {
	for name, obj := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			first := withoutRestart(obj)
			created, err := create(t, deployments, first)
			if err != nil {
				t.Fatal(err)
			}
			for _, loss := range losses("", first.Object, created.Object) {
				t.Error("the API server dropped or changed " + loss)
			}
			applied, err := objectsOf(deployments).Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatalf("server-side apply: %v", err)
			}
			for _, loss := range losses("", obj.Object, applied.Object) {
				t.Error("server-side apply dropped or changed " + loss)
			}
		})
	}
}

// withoutRestart is a manifest as it may be created.
func withoutRestart(obj *unstructured.Unstructured) *unstructured.Unstructured {
	first := obj.DeepCopy()
	unstructured.RemoveNestedField(first.Object, "spec", "restart")
	return first
}

// What goes through the operator's types comes out whole, and the API server takes it.
func TestGoTypesLoseNothing(t *testing.T) {
	for name, obj := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			var typed nvidiav1alpha1.DynamoGraphDeployment
			if err := json.Unmarshal([]byte(toJSON(t, obj.Object)), &typed); err != nil {
				t.Fatal(err)
			}
			encoded := object(t, toJSON(t, &typed))
			for _, loss := range losses("", obj.Object, encoded.Object) {
				t.Error("Go dropped or changed " + loss)
			}
			delete(encoded.Object, "status")
			_, err := create(t, deployments, withoutRestart(encoded), metav1.DryRunAll)
			refusal{}.check(t, err)
		})
	}
}

// losses lists what was written and is not there any more. Nulls mean nothing, nor do false and "" where the field is gone;
// quantities may be written otherwise.
func losses(path string, before, after any) []string {
	switch old := before.(type) {
	case nil:
		return nil
	case bool, string:
		if reflect.ValueOf(old).IsZero() && after == nil {
			return nil
		}
	case map[string]any:
		now, _ := after.(map[string]any)
		var all []string
		for key, value := range old {
			all = append(all, losses(path+"."+key, value, now[key])...)
		}
		return all
	case []any:
		now, _ := after.([]any)
		if len(now) != len(old) {
			return []string{fmt.Sprintf("%s: %d of %d entries", path, len(now), len(old))}
		}
		var all []string
		for i := range old {
			all = append(all, losses(fmt.Sprintf("%s[%d]", path, i), old[i], now[i])...)
		}
		return all
	}
	if reflect.DeepEqual(before, after) || sameQuantity(before, after) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v, now %v", path, before, after)}
}

func sameQuantity(a, b any) bool {
	first, err1 := resource.ParseQuantity(fmt.Sprint(a))
	second, err2 := resource.ParseQuantity(fmt.Sprint(b))
	return err1 == nil && err2 == nil && first.Cmp(second) == 0
}

func TestDefaults(t *testing.T) {
	obj := deploymentsIn(t, filepath.Join("testdata", "least.yaml"))[0]
	mustCreate(t, deployments, withoutRestart(obj))
	created, err := objectsOf(deployments).Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Parse(t, `
restart: {strategy: {type: Sequential}}
services:
  Frontend: {replicas: 1}
  Worker:
    replicas: 1
    multinode: {nodeCount: 2}
    gpuMemoryService: {mode: intraPod, deviceClassName: gpu.nvidia.com}
    failover: {mode: intraPod, numShadows: 1}`)
	for _, missing := range losses(".spec", want, created.Object["spec"]) {
		t.Error(missing)
	}
}

// The API server drops nulls from custom resources; a whole service must not go that way.
func TestServiceWithNothingBehindItsName(t *testing.T) {
	obj := object(t, graph, `metadata: {name: nothing-behind}`)
	obj.Object["spec"].(map[string]any)["services"].(map[string]any)["Planner"] = nil
	created, err := create(t, deployments, obj, metav1.DryRunAll)
	if err != nil {
		t.Fatal(err)
	}
	replicas, found, _ := unstructured.NestedInt64(created.Object, "spec", "services", "Planner", "replicas")
	if !found || replicas != 1 {
		t.Errorf("service Planner is lost: %v", created.Object["spec"])
	}
}

// Without this the two tests above could pass on manifests that use few fields.
func TestEveryFieldIsCovered(t *testing.T) {
	written := map[string]bool{}
	collect("", object(t, readFile(t, "testdata", "every-field.yaml")).Object["spec"], written)
	for _, path := range fieldPaths("", reflect.TypeFor[nvidiav1alpha1.DynamoGraphDeploymentSpec]()) {
		if !written[path] && path != ".services.topologyConstraint.topologyProfile" {
			t.Errorf("testdata/every-field.yaml has no %s", path)
		}
	}
}

func collect(path string, value any, into map[string]bool) {
	into[path] = true
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if strings.HasSuffix(path, ".services") {
				collect(path+"*", child, into) // the key is a name, not a field
				continue
			}
			collect(strings.TrimSuffix(path, "*")+"."+key, child, into)
		}
	case []any:
		for _, child := range v {
			collect(path, child, into)
		}
	}
}

// fieldPaths are the JSON paths of all fields of our own types below one.
func fieldPaths(path string, of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || !strings.HasSuffix(of.PkgPath(), "trellis/api/nvidia/v1alpha1") {
		return nil
	}
	var all []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			all = append(all, path+"."+name)
			all = append(all, fieldPaths(path+"."+name, field.Type)...)
		}
	}
	return all
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
