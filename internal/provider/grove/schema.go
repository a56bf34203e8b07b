// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Shape is the structure of a topology constraint in the installed version of Grove.
type Shape string

// Shapes, from the oldest to the newest.
const (
	// ShapeNone: there are no constraints.
	ShapeNone Shape = "none"
	// ShapePackDomain: {packDomain}. There is a single topology, with a fixed name.
	ShapePackDomain Shape = "packDomain"
	// ShapeNamed: {topologyName, packDomain}.
	ShapeNamed Shape = "topologyName"
	// ShapePack: {topologyName, pack: {required, preferred}}.
	ShapePack Shape = "pack"
)

// onlyTopology is the name of the single topology in a version of Grove with ShapePackDomain.
const onlyTopology = "grove-topology"

// Schema describes which fields of a PodCliqueSet the cluster supports.
type Schema struct {
	Shape Shape
	// Domains are the level names that the schema allows; empty if it allows any name.
	Domains []string
	// UpdateStrategy: PodCliqueSets have the field updateStrategy.
	UpdateStrategy bool
}

// ReadSchema reads the schema from the CustomResourceDefinition. It returns false if the cluster does not serve PodCliqueSets in the API
// version that Trellis uses.
func ReadSchema(crd *apiextensionsv1.CustomResourceDefinition) (Schema, bool) {
	for _, version := range crd.Spec.Versions {
		if version.Name != groupVersion.Version || !version.Served || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		_, strategy := at(*version.Schema.OpenAPIV3Schema, "spec", "updateStrategy")
		constraint, known := at(*version.Schema.OpenAPIV3Schema, "spec", "template", "topologyConstraint")
		if !known {
			return Schema{Shape: ShapeNone, UpdateStrategy: strategy}, true
		}
		_, named := constraint.Properties["topologyName"]
		_, pack := constraint.Properties["pack"]
		switch {
		case pack:
			required, _ := at(constraint, "pack", "required")
			return Schema{ShapePack, enum(required), strategy}, true
		case named:
			return Schema{ShapeNamed, enum(constraint.Properties["packDomain"]), strategy}, true
		}
		return Schema{ShapePackDomain, enum(constraint.Properties["packDomain"]), strategy}, true
	}
	return Schema{}, false
}

func at(schema apiextensionsv1.JSONSchemaProps, path ...string) (apiextensionsv1.JSONSchemaProps, bool) {
	for _, name := range path {
		next, known := schema.Properties[name]
		if !known {
			return next, false
		}
		schema = next
	}
	return schema, true
}

func enum(schema apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	for _, raw := range schema.Enum {
		var value string
		if json.Unmarshal(raw.Raw, &value) == nil {
			out = append(out, value)
		}
	}
	return out
}
