// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

// kind is one version of one definition.
type kind struct {
	definition *apiextensionsv1.CustomResourceDefinition
	version    string
	schema     *schema
	// other is another served version; empty where there is none.
	other string
}

func (k *kind) String() string { return k.definition.Spec.Names.Plural + "." + k.version }

// leaf is a field of a kind, with what leads to it. A field that holds others is one as well: it may be empty, null or of another type.
type leaf struct {
	kind   *kind
	path   string
	steps  []step
	schema *schema
	// required: the schema asks for it wherever its parent is.
	required bool
}

// step is a field's name, an item of a list ([]) or a key of a map ({}).
type step struct {
	name string
	into *schema
}

const (
	anItem = "[]"
	aKey   = "{}"
)

func (l *leaf) String() string { return l.kind.String() + " " + l.path }

// kinds are all versions that users write. Specs are made of them: there is none yet that could fail.
var kinds = sync.OnceValue(func() []*kind {
	var out []*kind
	for _, name := range []string{"nvidia.com_dynamographdeployments", "nvidia.com_dynamographdeploymentscalingadapters", "grove.io_clustertopologies"} {
		raw, err := os.ReadFile(filepath.Join(root, "config", "crd", "bases", name+".yaml"))
		if err != nil {
			panic(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			panic(err)
		}
		for i := range crd.Spec.Versions {
			k := &kind{definition: crd, version: crd.Spec.Versions[i].Name, schema: crd.Spec.Versions[i].Schema.OpenAPIV3Schema}
			for _, other := range crd.Spec.Versions {
				if other.Name != k.version && other.Served {
					k.other = other.Name
				}
			}
			out = append(out, k)
		}
	}
	return out
})

// leaves of a kind, in the order of their paths.
func (k *kind) leaves() []*leaf {
	var out []*leaf
	var walk func(s *schema, path string, steps []step, required bool)
	walk = func(s *schema, path string, steps []step, required bool) {
		if len(steps) > 1 {
			out = append(out, &leaf{kind: k, path: path, steps: slices.Clone(steps), schema: s, required: required})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			child := s.Properties[name]
			walk(&child, strings.TrimPrefix(path+"."+name, "."), append(slices.Clone(steps), step{name, &child}), slices.Contains(s.Required, name))
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			walk(s.AdditionalProperties.Schema, path+aKey, append(slices.Clone(steps), step{aKey, s.AdditionalProperties.Schema}), false)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(s.Items.Schema, path+anItem, append(slices.Clone(steps), step{anItem, s.Items.Schema}), false)
		}
	}
	for _, part := range []string{"spec", "status"} {
		if s, has := k.schema.Properties[part]; has {
			walk(&s, part, []step{{part, &s}}, true)
		}
	}
	return out
}

// part is what of the object the leaf is in: spec or status.
func (l *leaf) part() string { return l.steps[0].name }

// ends: the schema says nothing of what is below.
func (l *leaf) ends() bool { return ends(l.schema) }

func ends(s *schema) bool {
	return len(s.Properties) == 0 && (s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil) && (s.Items == nil || s.Items.Schema == nil)
}

// find the leaf of a path; nil where there is none.
func find(all []*leaf, kindName, path string) *leaf {
	i := slices.IndexFunc(all, func(l *leaf) bool { return l.kind.String() == kindName && l.path == path })
	if i < 0 {
		return nil
	}
	return all[i]
}

var _ fmt.Stringer = &leaf{}
