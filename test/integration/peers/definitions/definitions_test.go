// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// realDir is the folder of the real definitions; what is about them needs it.
var realDir = os.Getenv("TRELLIS_PEER_DEFINITIONS")

func rootOf(crd *apiextensionsv1.CustomResourceDefinition) schema {
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// Every definition reads back, has no prose, and knows its kind's spec.
func TestLoad(t *testing.T) {
	for file := range Types {
		crd, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		paths := flat{}
		flatten(rootOf(crd), "", paths)
		if len(paths) < 8 || crd.Spec.Names.Kind == "" || !crd.Spec.Versions[0].Storage {
			t.Errorf("%s: %d paths of %q", file, len(paths), crd.Spec.Names.Kind)
		}
		for at, s := range paths {
			if s.Description != "" || slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Message != "" }) {
				t.Errorf("%s: %s has prose", file, at)
			}
		}
	}
}

// The Dynamo operator's definitions read back in both versions, with status and without prose. What describes pods takes any fields.
func TestLoadUpstream(t *testing.T) {
	for _, file := range Upstream {
		crd, err := LoadUpstream(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(crd.Spec.Versions) != 2 || !crd.Spec.Versions[1].Storage || crd.Spec.Versions[1].Subresources.Status == nil {
			t.Errorf("%s: versions %+v", file, crd.Spec.Versions)
		}
		for _, v := range crd.Spec.Versions {
			paths := flat{}
			flatten(*v.Schema.OpenAPIV3Schema, "", paths)
			for at, s := range paths {
				if s.Description != "" || slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Message != "" }) {
					t.Errorf("%s: %s has prose", file, at)
				}
				if strings.Contains(at, "ontainers[].") {
					t.Errorf("%s: %s is of a pod", file, at)
				}
			}
			if _, has := paths["status"]; !has || len(paths) < 10 {
				t.Errorf("%s: %d paths in %s", file, len(paths), v.Name)
			}
		}
	}
}

// What is written reads back as it was.
func TestTextReadsBack(t *testing.T) {
	for file := range Types {
		want, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := Collect([]*apiextensionsv1.CustomResourceDefinition{want})
		if err != nil {
			t.Fatal(err)
		}
		text, err := Text(want, file, "", pods)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(text, pods)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
}

// Fields that no type of Trellis has are left out, unless they are required or a rule names them; the rest keeps all but its prose.
func TestDerive(t *testing.T) {
	full := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(`
spec:
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: prose
            required: [needed]
            x-kubernetes-validations: [{rule: "!has(self.named)", message: prose}]
            properties:
              ours: {type: string, enum: [a], pattern: "^a$", default: a, description: prose}
              needed: {type: integer}
              named: {type: boolean}
              theirs: {type: string}
  - name: v0
    served: false
`), full); err != nil {
		t.Fatal(err)
	}
	type object struct {
		Spec struct {
			Ours  string `json:"ours"`
			Lacks string `json:"lacks"`
		} `json:"spec"`
	}
	crd := Derive(full, reflect.TypeFor[object]())
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("%d versions", len(crd.Spec.Versions))
	}
	text, err := Text(crd, "x.yaml", "0", PodSpecs{})
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(text, "\n.")
	want := ` {"type":"object"}
spec {"type":"object","required":["needed"],"x-kubernetes-validations":[{"rule":"!has(self.named)"}]}
spec.named {"type":"boolean"}
spec.needed {"type":"integer"}
spec.ours {"type":"string","default":"a","pattern":"^a$","enum":["a"]}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The derived definitions are of today's real ones, where these are there.
func TestOfTheReal(t *testing.T) {
	if realDir == "" {
		t.Skip("TRELLIS_PEER_DEFINITIONS is not set")
	}
	for file, of := range Types {
		raw, err := os.ReadFile(filepath.Join(realDir, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		full := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, full); err != nil {
			t.Fatal(err)
		}
		want := Derive(full, of)
		got, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		wanted, have := flat{}, flat{}
		flatten(rootOf(want), "", wanted)
		flatten(rootOf(got), "", have)
		if diff := cmp.Diff(wanted, have); diff != "" {
			t.Errorf("%s is out of date; run go run ./hack/peercrds:\n%s", file, diff)
		}
		head, err := data.ReadFile(dataFile(file))
		if err != nil {
			t.Fatal(err)
		}
		if digest := fmt.Sprintf("%x", sha256.Sum256(raw)); !strings.Contains(string(head[:200]), digest) {
			t.Errorf("%s names another digest", file)
		}
	}
}

func TestUpstreamOfTheReal(t *testing.T) {
	if realDir == "" {
		t.Skip("TRELLIS_PEER_DEFINITIONS is not set")
	}
	for _, file := range Upstream {
		raw, err := os.ReadFile(filepath.Join(realDir, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		full := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, full); err != nil {
			t.Fatal(err)
		}
		for _, want := range DeriveUpstream(full) {
			text, err := Text(want, filepath.Base(file), fmt.Sprintf("%x", sha256.Sum256(raw)), PodSpecs{})
			if err != nil {
				t.Fatal(err)
			}
			name := UpstreamFile(file, want.Spec.Versions[0].Name)
			if got, err := data.ReadFile("data/" + name); err != nil || string(got) != text {
				t.Errorf("%s is out of date (%v); run go run ./hack/peercrds", name, err)
			}
		}
	}
}
