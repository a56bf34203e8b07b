// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type (
	schema = apiextensionsv1.JSONSchemaProps
	// flat is a schema by path, each without what is below it.
	flat map[string]schema
	// reference says that a pod's spec is here.
	reference struct {
		Use     string   `json:"use"`
		Without []string `json:"without,omitempty"`
	}
)

// flatten adds a schema and all below it.
func flatten(s schema, path string, into flat) {
	for name, property := range s.Properties {
		flatten(property, strings.TrimPrefix(path+"."+name, "."), into)
	}
	if s.Items != nil {
		flatten(*s.Items.Schema, path+"[]", into)
	}
	s.Properties, s.Items = nil, nil
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		flatten(*s.AdditionalProperties.Schema, path+"{}", into)
		s.AdditionalProperties = nil
	}
	into[path] = s
}

// properties are the names of the properties at each path.
func (f flat) properties() map[string][]string {
	out := map[string][]string{}
	for path := range f {
		dot := strings.LastIndex(path, ".")
		if name := path[dot+1:]; name != "" && !strings.ContainsAny(name, "[{") {
			at := path[:max(dot, 0)]
			out[at] = append(out[at], name)
		}
	}
	return out
}

// unflatten is the schema at a path, with all below it.
func unflatten(at string, from flat, properties map[string][]string) schema {
	s := from[at]
	if _, has := from[at+"[]"]; has {
		items := unflatten(at+"[]", from, properties)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	}
	if _, has := from[at+"{}"]; has {
		values := unflatten(at+"{}", from, properties)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values}
	}
	for _, name := range properties[at] {
		if s.Properties == nil {
			s.Properties = map[string]schema{}
		}
		s.Properties[name] = unflatten(strings.TrimPrefix(at+"."+name, "."), from, properties)
	}
	return s
}

// Text writes a derived definition of one version, which specs of pods are to be had from.
func Text(crd *apiextensionsv1.CustomResourceDefinition, source, digest string, pods PodSpecs) (string, error) {
	if len(crd.Spec.Versions) != 1 {
		return "", fmt.Errorf("%s has %d served versions, want 1", crd.Name, len(crd.Spec.Versions))
	}
	paths := flat{}
	flatten(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", paths)
	head := crd.DeepCopy()
	head.Spec.Versions[0].Schema = nil
	raw, err := json.Marshal(map[string]any{"apiVersion": head.APIVersion, "kind": head.Kind, "metadata": map[string]string{"name": head.Name},
		"spec": head.Spec})
	if err != nil {
		return "", err
	}
	lines := []string{fmt.Sprintf("# From %s, sha256 %s. Written by hack/peercrds; not to be edited.", source, digest), string(raw)}
	for _, at := range podSpecsIn(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "") {
		line, err := pods.refer(at, paths)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return finish(lines, paths)
}

func finish(lines []string, paths flat) (string, error) {
	for _, at := range slices.Sorted(maps.Keys(paths)) {
		raw, err := json.Marshal(paths[at])
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s %s", shown(at), raw))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// shown writes the root as a dot.
func shown(at string) string {
	if at == "" {
		return "."
	}
	return at
}

// Parse reads what Text wrote.
func Parse(text string, pods PodSpecs) (*apiextensionsv1.CustomResourceDefinition, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 3 {
		return nil, fmt.Errorf("it has %d lines", len(lines))
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal([]byte(lines[1]), crd); err != nil {
		return nil, err
	}
	paths := flat{}
	for _, line := range lines[2:] {
		at, raw, _ := strings.Cut(line, " ")
		if strings.Contains(raw, `{"use":`) {
			if err := pods.resolve(at, raw, paths); err != nil {
				return nil, err
			}
			continue
		}
		if err := paths.add(at, raw); err != nil {
			return nil, err
		}
	}
	root := unflatten("", paths, paths.properties())
	crd.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root}
	return crd, nil
}

func (f flat) add(at, raw string) error {
	s := schema{}
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	f[strings.TrimPrefix(at, ".")] = s
	return nil
}
