// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// endpointPicker checks an endpoint picker. It must be single-node. Before runtime 1.5.0, which introduced the native picker, it must also
// have one replica and exactly one configuration.
func endpointPicker(s component) field.ErrorList {
	var errs field.ErrorList
	if c := s.EPPConfig; c != nil && (c.ConfigMapRef == nil) == (c.Config == nil) {
		errs = append(errs, field.Invalid(s.path.Child("eppConfig"), field.OmitValueType{}, "must have exactly one of configMapRef and config"))
	}
	if s.Type != nvidiav1beta1.ComponentTypeEPP {
		return errs
	}
	if native, known := render.NativePicker(s.ComponentSpec); s.EPPConfig == nil && !native {
		text := "eppConfig with exactly one of configMapRef and config is required for %s epp with a runtime before 1.5.0"
		if !known {
			text += "; for a later one, whose image tag does not say so, set runtimeVersionOverride"
		}
		errs = append(errs, field.Required(s.path.Child("eppConfig"), text, field.WordType))
	}
	if s.Multinode != nil {
		errs = append(errs, field.Forbidden(s.path.Child("multinode"), "%s epp must be single-node; remove multinode", field.WordType))
	}
	return append(errs, pickerReplicas(s)...)
}

func pickerReplicas(s component) field.ErrorList {
	if s.Type != nvidiav1beta1.ComponentTypeEPP || s.Replicas == nil || *s.Replicas <= 1 {
		return nil
	}
	if native, _ := render.NativePicker(s.ComponentSpec); native && s.EPPConfig == nil {
		return nil
	}
	return one(field.Invalid(s.path.Child("replicas"), *s.Replicas, "%s epp must have exactly 1 replica (or 0 to stop it)", field.WordType))
}

// pickerConfig checks the configuration of an endpoint picker when it is new or changes.
func pickerConfig(s component) field.ErrorList {
	if s.Type != nvidiav1beta1.ComponentTypeEPP || s.EPPConfig == nil {
		return nil
	}
	var errs field.ErrorList
	path := s.path.Child("eppConfig")
	if native, _ := render.NativePicker(s.ComponentSpec); native {
		errs = append(errs, field.Forbidden(path, "the endpoint picker of runtime 1.5.0 and later reads no eppConfig; remove it, "+
			"or set runtimeVersionOverride if the runtime is older than its image tag says"))
	}
	if ref := s.EPPConfig.ConfigMapRef; ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(path.Child("configMapRef", "name"), "name the ConfigMap"))
	}
	return errs
}
