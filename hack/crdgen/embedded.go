// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// coreFields are the properties whose schema comes from Kubernetes' own types.
var coreFields = []string{"envs", "env", "extraPodSpec", "podTemplate", "livenessProbe", "readinessProbe", "claims", "configMapRef",
	"conditions"}

// repeatable are lists that Kubernetes declares as maps but whose keys a valid pod may repeat, or whose keys need a default.
// The API server refuses a repeated key only in custom resources.
var repeatable = []string{"env", "ports", "claims", "imagePullSecrets", "hostAliases"}

const (
	// quantityPattern is stricter than Kubernetes' pattern: the exponent is a whole number of at most two digits. The usual pattern also
	// accepts "1e1.5", which Go cannot parse, and "1e-999999999", which takes Go minutes.
	quantityPattern   = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	quantityMaxLength = 64

	// maxSafeInteger is the largest integer up to which JSON numbers, which have 53 bits, are exact.
	maxSafeInteger = 1<<53 - 1
)

// finish turns controller-gen's schema of a kind into the schema of the definition.
func finish(root *schema) {
	walk("", root, func(name string, s *schema) {
		if slices.Contains(coreFields, name) {
			stripBelow(s)
		}
		switch name {
		case "extraPodSpec":
			relaxPodSpec(s)
		case "podTemplate":
			relaxPodTemplate(s)
		case "custom":
			boundQuantities(s.AdditionalProperties.Schema)
		}
		boundNumbers(s)
		refuseLists(s)
	})
	shortenEmbedded(root)
	spec := root.Properties["spec"]
	walk("spec", &spec, func(name string, s *schema) {
		allowNulls(s)
		if name == "services" {
			keepEmptyServices(s)
		}
	})
	root.Properties["spec"] = spec
}

// walk visits every schema below s, and s itself, with the name of the property it belongs to ("" for items and map values).
func walk(name string, s *schema, visit func(name string, s *schema)) {
	visit(name, s)
	for property, child := range s.Properties {
		walk(property, &child, visit)
		s.Properties[property] = child
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk("", s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk("", s.AdditionalProperties.Schema, visit)
	}
}

// stripBelow drops the descriptions and defaults of everything inside s. The API server sets the defaults of pods, and the object stays as
// its author wrote it.
func stripBelow(s *schema) {
	own := s.Description
	walk("", s, func(_ string, child *schema) {
		child.Description = ""
		child.Default = nil
	})
	s.Description = own
}

// shortenEmbedded drops texts that Kubernetes' own types repeat: the descriptions of apiVersion and kind, and the format of integers inside
// pods, which their bounds already limit.
func shortenEmbedded(root *schema) {
	for _, name := range []string{"apiVersion", "kind"} {
		child := root.Properties[name]
		child.Description = ""
		root.Properties[name] = child
	}
	walk("", root, func(name string, s *schema) {
		if slices.Contains(coreFields, name) {
			walk("", s, func(_ string, child *schema) {
				if child.Type == "integer" {
					child.Format = ""
				}
			})
		}
	})
}

// relaxPodSpec adapts the schema of a pod spec to a fragment that is merged into another: no top-level field is required, the main
// container needs no name, and lists may repeat keys as in pods.
func relaxPodSpec(s *schema) {
	s.Required = nil
	main := s.Properties["mainContainer"]
	main.Required = nil
	main.Description = "MainContainer is merged over the service's default container. Its name is always main."
	s.Properties["mainContainer"] = main
	relaxLists(s)
}

// relaxPodTemplate adapts the schema of a pod template to one that is merged with defaults: its spec need not list containers.
func relaxPodTemplate(s *schema) {
	spec, ok := s.Properties["spec"]
	if !ok {
		return
	}
	spec.Required = nil
	s.Properties["spec"] = spec
	relaxLists(s)
}

func relaxLists(s *schema) {
	walk("", s, func(name string, child *schema) {
		if slices.Contains(repeatable, name) && child.XListType != nil {
			child.XListType = new("atomic")
			child.XListMapKeys = nil
		}
	})
}

// allowNulls accepts null for a field (`containers: null`, as from an empty key of a template) as if it were absent, like built-in kinds.
// The API server drops these nulls by itself except in a server-side apply. Required fields, fields with a default and fields in a
// validation rule stay unchanged.
func allowNulls(s *schema) {
	rules := ""
	for _, rule := range s.XValidations {
		rules += rule.Rule
	}
	for property, child := range s.Properties {
		if slices.Contains(s.Required, property) || strings.Contains(rules, "."+property) || child.Default != nil || len(child.XValidations) > 0 {
			continue
		}
		child.Nullable = true
		s.Properties[property] = child
	}
}

// keepEmptyServices turns a service's name without a value into a service with every default. The API server would otherwise drop it
// silently. (controller-gen has no marker for the values of a map.)
func keepEmptyServices(s *schema) {
	s.AdditionalProperties.Schema.Default = &apiextensionsv1.JSON{Raw: []byte("{}")}
}

// boundNumbers refuses numbers that the schema's type accepts but Go's type does not.
func boundNumbers(s *schema) {
	switch {
	case s.XIntOrString && s.Pattern != "":
		boundQuantities(s)
	case s.XIntOrString, s.Type == "integer" && s.Format == "int32":
		limit(s, math.MinInt32, math.MaxInt32)
	case s.Type == "integer":
		limit(s, -maxSafeInteger, maxSafeInteger)
	}
}

// refuseLists adds a rule to date-time fields. For a string with a format, the API server's schema also accepts a list, which Go cannot
// read; the rule fails on a list.
func refuseLists(s *schema) {
	if s.Type == "string" && s.Format == "date-time" {
		s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.getFullYear() > 0",
			Message: "must be a date and a time, e.g. 2006-01-02T15:04:05Z"}}
	}
}

func boundQuantities(s *schema) {
	s.Pattern = quantityPattern
	s.MaxLength = new(int64(quantityMaxLength))
}

// limit adds bounds, unless the schema has its own.
func limit(s *schema, low, high float64) {
	if s.Minimum == nil {
		s.Minimum = &low
	}
	if s.Maximum == nil {
		s.Maximum = &high
	}
}

// checkListKeys returns an error if an entry of a keyed list could lack its key, which the API server would refuse.
func checkListKeys(kind string, root *schema) error {
	var err error
	walk("", root, func(name string, s *schema) {
		for _, key := range s.XListMapKeys {
			items := s.Items.Schema
			if !slices.Contains(items.Required, key) && items.Properties[key].Default == nil {
				err = fmt.Errorf("%s: list %s has the key %s, which is neither required nor defaulted", kind, name, key)
			}
		}
	})
	return err
}
