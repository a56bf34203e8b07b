// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package field contains paths of fields in a deployment, and errors and messages about these fields. It can write them in the terms of
// either API version.
//
// Checks use only v1beta1: its paths, and its words in messages. The method In translates both to v1alpha1, with the
// tables in alpha.go and the pairs of words in text.go; String and Error use v1beta1. Checks therefore never contain v1alpha1 words.
//
//	path := field.Component(2, "Decode").Child("podTemplate", "spec", "nodeName")
//	err := field.Forbidden(path, "a multinode %s is placed by the operator", field.WordComponent)
//
//	err.In("v1beta1")    spec.components[2].podTemplate.spec.nodeName: a multinode component is placed by the operator
//	err.In("v1alpha1")   spec.services[Decode].extraPodSpec.nodeName: a multinode service is placed by the operator
//
// Errors have the same constructors as in Kubernetes' own package field. The method In returns errors of that package.
package field
