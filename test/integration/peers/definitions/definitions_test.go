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
