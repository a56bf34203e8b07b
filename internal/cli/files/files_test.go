// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// defaultsOf collects the defaults of a schema by path.
func defaultsOf(schema map[string]any, path string, into map[string]any) {
	if value, ok := schema["default"]; ok {
		into[path] = value
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, child := range properties {
			defaultsOf(child.(map[string]any), strings.TrimPrefix(path+"."+name, "."), into)
		}
	}
	if child, ok := schema["additionalProperties"].(map[string]any); ok {
		defaultsOf(child, path+".*", into)
	}
	if child, ok := schema["items"].(map[string]any); ok {
		defaultsOf(child, path+".*", into)
	}
}

// The defaults of the definition are all here, and no others.
func TestDefaultsAreThoseOfTheSchema(t *testing.T) {
	data, err := os.ReadFile("../../../config/crd/bases/nvidia.com_dynamographdeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]any{}, map[string]any{}
	for _, version := range crd.Spec.Versions {
		defaultsOf(version.Schema.OpenAPIV3Schema, "", want)
	}
	for path := range want {
		if !strings.HasPrefix(path, "spec.") {
			delete(want, path)
		}
	}
	for _, d := range schemaDefaults {
		got[d.path] = d.value
		if n, ok := d.value.(int64); ok {
			got[d.path] = float64(n)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-definition +here:\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	const manifest = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  services:
    Empty:
    Unset: {replicas: null, multinode: {}}
    None: {replicas: 0, multinode: {nodeCount: 4}}
---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  hostNetwork: true
  containers:
  - name: c
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: "2", memory: 1Gi}, requests: {cpu: "1"}}
`
	c := parse("x", []byte(manifest))
	if len(c.errs) > 0 || len(c.objects) != 3 {
		t.Fatalf("%d objects, %v", len(c.objects), c.errs)
	}
	components := hub.Back(c.objects[0].Object.(*nvidiav1beta1.DynamoGraphDeployment)).Spec.Services
	want := map[string]*nvidiav1alpha1.ServiceSpec{
		"Empty": {Replicas: ptr.To[int32](1)},
		"Unset": {Replicas: ptr.To[int32](1), Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 2}},
		"None":  {Replicas: ptr.To[int32](0), Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 4}},
	}
	if diff := cmp.Diff(want, components); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if cpu := c.objects[1].Object.(*corev1.Node).Status.Allocatable.Cpu(); cpu.String() != "4" {
		t.Errorf("allocatable cpu %s", cpu)
	}
	container := c.objects[2].Object.(*corev1.Pod).Spec.Containers[0]
	if r := container.Resources.Requests; r.Cpu().String() != "1" || r.Memory().String() != "1Gi" || container.Ports[0].HostPort != 80 {
		t.Errorf("container %+v", container)
	}
}

// Lists and streams of JSON are taken apart, and every field has its line.
func TestForms(t *testing.T) {
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"NAME"}}`
	named := func(name string) string { return strings.Replace(node, "NAME", name, 1) }
	for name, tc := range map[string]struct {
		data string
		want []string
	}{
		"JSON stream":    {named("a") + "\n\n" + named("b"), []string{"a x:1", "b x:3"}},
		"List":           {"kind: List\napiVersion: v1\nitems:\n- " + named("a") + "\n- " + named("b"), []string{"a x:4", "b x:5"}},
		"NodeList":       {"kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: a}\n", []string{"a x:4"}},
		"list in a list": {"kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items: [" + named("a") + "]\n", []string{"a x:4"}},
		"comments":       {"# nothing\n---\n# nothing\n--- # and\n" + named("a") + "\n---\n", []string{"a x:5"}},
		"Windows":        {"apiVersion: v1\r\nkind: Node\r\nmetadata: {name: a}\r\n---\r\napiVersion: v1\r\nkind: Node\r\nmetadata: {name: b}\r\n", []string{"a x:1", "b x:5"}},
		"JSON as YAML":   {"{apiVersion: v1, kind: Node,\n metadata: {name: a}}", []string{"a x:1"}},
		"empty":          {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := parse("x", []byte(tc.data))
			if len(c.errs) > 0 {
				t.Fatal(c.errs)
			}
			var got []string
			for _, o := range c.objects {
				got = append(got, o.GetName()+" "+o.Source.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLine(t *testing.T) {
	s := Source{doc: document{line: 10, text: []byte(`spec:
  base: &base
    x: 1
  services:
    a.b:
      envs:
      - name: A
      - name: B
        value: 7
    a: *base
`)}}
	for path, want := range map[string]int{
		"":                                 10,
		"spec":                             10,
		"spec.services[a.b].envs[1].value": 18,
		"spec.services.a.b.envs[1].value":  18,
		"spec.services.a.x":                12,
		"spec.services[a.b].replicas":      14,
		"spec.services[other]":             13,
		"spec.services[a.b].envs[7].name":  15,
		"status":                           10,
	} {
		if got := s.Line(path); got != want {
			t.Errorf("%s is on line %d, want %d", path, got, want)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Read([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "no file in it ends in .json, .yaml or .yml") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, name := range []string{"2.yml", "1.yaml", "3.json", "4.txt"} {
		data := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n` + name + `"}}`
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, _, err := Read([]string{dir}, nil)
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	if want := []string{"n1.yaml", "n2.yml", "n3.json"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v (%v), want %v", names, err, want)
	}
}

// Whatever is in a file, reading it ends with objects or errors.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: b", "{}", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[1]}", "--- #", "kind: Node\napiVersion: v1\nmetadata: 3", "a: &a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		c := parse("x", data)
		for _, o := range c.objects {
			_ = o.Source.String()
		}
	})
}
