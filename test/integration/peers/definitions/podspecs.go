// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// PodSpecs has every path that the spec of a pod has in any of the definitions.
type PodSpecs struct{ paths flat }

// Collect joins the specs of pods in derived definitions. It is an error if two differ in more than the paths they have.
func Collect(crds []*apiextensionsv1.CustomResourceDefinition) (PodSpecs, error) {
	out := PodSpecs{paths: flat{}}
	for _, crd := range crds {
		root := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		all := flat{}
		flatten(root, "", all)
		for _, at := range podSpecsIn(root, "") {
			for path, s := range all {
				rest, below := under(path, at)
				if !below {
					continue
				}
				if have, has := out.paths[rest]; has && !reflect.DeepEqual(have, s) {
					return out, fmt.Errorf("%s: %s differs from the other definitions", crd.Name, path)
				}
				out.paths[rest] = s
			}
		}
	}
	return out, nil
}

// under is the rest of a path below another one, from the separator on.
func under(path, at string) (string, bool) {
	rest, has := strings.CutPrefix(path, at)
	return rest, has && (rest == "" || strings.ContainsAny(rest[:1], ".[{"))
}

// podSpecsIn are the paths where the spec of a pod is.
func podSpecsIn(s schema, at string) []string {
	_, containers := s.Properties["containers"]
	_, gates := s.Properties["schedulingGates"]
	if containers && gates {
		return []string{at}
	}
	var out []string
	for name, property := range s.Properties {
		out = append(out, podSpecsIn(property, strings.TrimPrefix(at+"."+name, "."))...)
	}
	if s.Items != nil {
		out = append(out, podSpecsIn(*s.Items.Schema, at+"[]")...)
	}
	slices.Sort(out)
	return out
}

// refer takes the spec of a pod out of paths, and is the line that stands for it.
func (p PodSpecs) refer(at string, paths flat) (string, error) {
	ref := reference{Use: podSpec}
	for rest := range p.paths {
		if _, has := paths[at+rest]; !has {
			ref.Without = append(ref.Without, rest)
		}
		delete(paths, at+rest)
	}
	slices.Sort(ref.Without)
	raw, err := json.Marshal(ref)
	return at + " " + string(raw), err
}

// resolve adds the spec of a pod to paths, where a line refers to it.
func (p PodSpecs) resolve(at, raw string, paths flat) error {
	ref := reference{}
	if err := json.Unmarshal([]byte(raw), &ref); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if ref.Use != podSpec {
		return fmt.Errorf("%s: there is no %q", at, ref.Use)
	}
	for rest, s := range p.paths {
		if !slices.Contains(ref.Without, rest) {
			paths[at+rest] = s
		}
	}
	return nil
}

// Text writes the specs of pods.
func (p PodSpecs) Text() (string, error) {
	return finish([]string{"# The spec of a pod. Written by hack/peercrds; not to be edited."}, p.paths)
}

func parsePodSpec(text string) (PodSpecs, error) {
	out := PodSpecs{paths: flat{}}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		at, raw, _ := strings.Cut(line, " ")
		s := schema{}
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			return out, fmt.Errorf("%s: %w", at, err)
		}
		out.paths[strings.TrimSuffix(at, ".")] = s
	}
	return out, nil
}
