// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// schemas of a DynamoGraphDeployment, as the API server sets defaults by them, by version.
func schemas(t *testing.T) map[string]*structuralschema.Structural {
	t.Helper()
	data, err := os.ReadFile("../../../config/crd/bases/nvidia.com_dynamographdeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		t.Fatal(err)
	}
	out := map[string]*structuralschema.Structural{}
	for i := range crd.Spec.Versions {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[i].Schema.OpenAPIV3Schema, internal, nil); err != nil {
			t.Fatal(err)
		}
		if out[crd.Spec.Versions[i].Name], err = structuralschema.NewStructural(internal); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// drawObject draws an object, or null, with fields that are absent, null, empty or set.
func drawObject(t *rapid.T, fields map[string]func(*rapid.T) any) any {
	if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return nil
	}
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if rapid.Bool().Draw(t, name) {
			object[name] = fields[name](t)
		}
	}
	return object
}

func object(fields map[string]func(*rapid.T) any) func(*rapid.T) any {
	return func(t *rapid.T) any { return drawObject(t, fields) }
}

func oneOf(values ...any) func(*rapid.T) any {
	return func(t *rapid.T) any { return rapid.SampledFrom(append(values, nil)).Draw(t, "value") }
}

// What has defaults in a service of v1alpha1 and in a component of v1beta1.
var (
	number        = oneOf(int64(0), int64(3))
	shadows       = map[string]func(*rapid.T) any{"mode": oneOf("interPod"), "numShadows": number}
	memory        = map[string]func(*rapid.T) any{"mode": oneOf("interPod"), "deviceClassName": oneOf("d")}
	nodes         = map[string]func(*rapid.T) any{"nodeCount": number}
	alphaService  = object(map[string]func(*rapid.T) any{"replicas": number, "multinode": object(nodes), "failover": object(shadows), "gpuMemoryService": object(memory)})
	betaComponent = object(map[string]func(*rapid.T) any{
		"replicas": number, "multinode": object(nodes), "experimental": object(map[string]func(*rapid.T) any{"failover": object(shadows), "gpuMemoryService": object(memory)}),
	})
	restart = object(map[string]func(*rapid.T) any{"id": oneOf("1"), "strategy": object(map[string]func(*rapid.T) any{"type": oneOf("Parallel")})})
)

// TestDefaultsAreTheAPIServers: what is filled in is what the API server fills in by the schema, whatever is absent, null or empty.
func TestDefaultsAreTheAPIServers(t *testing.T) {
	versions := schemas(t)
	specs := map[string]func(*rapid.T) any{
		"v1alpha1": object(map[string]func(*rapid.T) any{"restart": restart, "services": object(map[string]func(*rapid.T) any{"A": alphaService, "B": alphaService})}),
		"v1beta1": object(map[string]func(*rapid.T) any{"restart": restart, "components": func(t *rapid.T) any {
			return []any{betaComponent(t), betaComponent(t)}
		}}),
	}
	if len(versions) != len(specs) {
		t.Fatalf("the definition has %d versions, and %d are drawn", len(versions), len(specs))
	}
	for version, spec := range specs {
		t.Run(version, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				got := map[string]any{"apiVersion": "nvidia.com/" + version, "kind": "DynamoGraphDeployment", "spec": spec(t)}
				want := runtime.DeepCopyJSON(got)
				defaulting.PruneNonNullableNullsWithoutDefaults(want, versions[version])
				defaulting.Default(want, versions[version])
				setDefaults(got)
				defaulting.PruneNonNullableNullsWithoutDefaults(got, versions[version]) // a null is decoded as what is absent
				if diff := cmp.Diff(want, got); diff != "" {
					written, _ := json.Marshal(got)
					t.Fatalf("%s\n-API server +here:\n%s", written, diff)
				}
			})
		})
	}
}
