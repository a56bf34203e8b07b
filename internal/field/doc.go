// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package field has paths of fields in a deployment, and errors and messages about them, that can be written in the terms of either API
// version.
//
// Checks use v1beta1: its paths, and its words in messages. In translates to v1alpha1, by the elements of a path and by one table; String
// and Error are in v1beta1. So checks never contain words of v1alpha1.
//
//	path := field.Component(2, "Decode").Child("podTemplate", "spec", "nodeName")
//	err := field.Forbidden(path, "a multinode %s is placed by the operator", field.WordComponent)
//
//	err.In("v1beta1")    spec.components[2].podTemplate.spec.nodeName: a multinode component is placed by the operator
//	err.In("v1alpha1")   spec.services[Decode].extraPodSpec.nodeName: a multinode service is placed by the operator
//
// Errors have the constructors of Kubernetes' own package field, whose errors In returns.
package field
