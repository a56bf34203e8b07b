// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Derive returns of a real definition what a type of Trellis writes and reads. A field of the type that the definition lacks is lacking in
// the result too.
func Derive(full *apiextensionsv1.CustomResourceDefinition, of reflect.Type) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: full.Name}}
	out.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: full.Spec.Group, Names: full.Spec.Names, Scope: full.Spec.Scope}
	for _, v := range full.Spec.Versions {
		if !v.Served {
			continue
		}
		v.AdditionalPrinterColumns, v.SelectableFields, v.DeprecationWarning = nil, nil, nil
		schema := known(*v.Schema.OpenAPIV3Schema, of)
		if status, has := v.Schema.OpenAPIV3Schema.Properties["status"]; has {
			schema.Properties["status"] = whole(status) // stand-ins write all of it
		}
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}
		out.Spec.Versions = append(out.Spec.Versions, v)
	}
	return out
}

// known keeps of a schema the fields of a type, what is required, and what a rule names.
func known(s apiextensionsv1.JSONSchemaProps, of reflect.Type) apiextensionsv1.JSONSchemaProps {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	opaque := reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case opaque || of.Kind() == reflect.Interface:
		return whole(s)
	case of.Kind() == reflect.Slice && s.Items != nil && s.Items.Schema != nil:
		item := known(*s.Items.Schema, of.Elem())
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	case of.Kind() == reflect.Map && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		value := known(*s.AdditionalProperties.Schema, of.Elem())
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value}
	case of.Kind() == reflect.Struct:
		s.Properties = knownFields(s, of)
	}
	return withoutProse(s)
}

func knownFields(s apiextensionsv1.JSONSchemaProps, of reflect.Type) map[string]apiextensionsv1.JSONSchemaProps {
	ours, out := fields(of), map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range s.Properties {
		if field, has := ours[name]; has {
			out[name] = known(property, field)
		} else if slices.Contains(s.Required, name) || named(s.XValidations, name) {
			out[name] = whole(property)
		}
	}
	return out
}

func named(rules apiextensionsv1.ValidationRules, field string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(field) + `\b`)
	return slices.ContainsFunc(rules, func(r apiextensionsv1.ValidationRule) bool {
		return word.MatchString(r.Rule + " " + r.MessageExpression)
	})
}

// fields of a struct by their names in JSON, with those of embedded structs.
func fields(of reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "" && name != "-":
			out[name] = field.Type
		case field.Anonymous:
			for name, kind := range fields(field.Type) {
				out[name] = kind
			}
		}
	}
	return out
}

// whole keeps everything but prose.
func whole(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range s.Properties {
		properties[name] = whole(property)
	}
	if len(properties) > 0 {
		s.Properties = properties
	}
	if s.Items != nil && s.Items.Schema != nil {
		item := whole(*s.Items.Schema)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		value := whole(*s.AdditionalProperties.Schema)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value}
	}
	return withoutProse(s)
}

// withoutProse leaves out what is for people. The texts of rules go too: the API server then says the rule.
func withoutProse(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s.Description, s.Title, s.Example, s.ExternalDocs = "", "", nil, nil
	s.XValidations = slices.Clone(s.XValidations)
	for i := range s.XValidations {
		s.XValidations[i].Message = ""
	}
	return s
}
