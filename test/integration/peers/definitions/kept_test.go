// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// What objects of the Dynamo operator hold is kept by the definitions of Trellis: a field that these lack would be pruned when an object is rewritten.
func TestTrellisKeepsUpstreamFields(t *testing.T) {
	for _, file := range Upstream {
		theirs, err := LoadUpstream(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "config", "crd", "bases", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		ours := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, ours); err != nil {
			t.Fatal(err)
		}
		for _, v := range theirs.Spec.Versions {
			i := slices.IndexFunc(ours.Spec.Versions, func(o apiextensionsv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name })
			if i < 0 {
				t.Errorf("%s: Trellis has no %s", file, v.Name)
				continue
			}
			has, wanted := flat{}, flat{}
			flatten(*ours.Spec.Versions[i].Schema.OpenAPIV3Schema, "", has)
			flatten(*v.Schema.OpenAPIV3Schema, "", wanted)
			for _, at := range slices.Sorted(maps.Keys(wanted)) {
				if mine, known := has[at]; !known && !takesAnything(has, at) {
					t.Errorf("%s %s: Trellis has no field %s", ours.Spec.Names.Kind, v.Name, at)
				} else if known && mine.Type != wanted[at].Type && mine.Type != "" {
					t.Errorf("%s %s: %s is of type %s, upstream's is %s", ours.Spec.Names.Kind, v.Name, at, mine.Type, wanted[at].Type)
				}
			}
		}
	}
}

// takesAnything reports whether a parent of a path keeps fields it does not name.
func takesAnything(has flat, at string) bool {
	for i := strings.LastIndexAny(at, ".[{"); i > 0; i = strings.LastIndexAny(at, ".[{") {
		at = at[:i]
		if s, known := has[at]; known && s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
			return true
		}
	}
	return false
}
