// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package field names fields of a deployment, and holds errors and messages about them, until it is known in which version of the API their
// reader writes.
//
// Checks speak v1beta1: its paths, and its words where a message names a field. In translates to v1alpha1, by the
// elements of a path and by one table; String and Error are v1beta1's. So a message never leaves a check in the words of v1alpha1.
//
//	path := field.Component(2, "Decode").Child("podTemplate", "spec", "nodeName")
//	err := field.Forbidden(path, "a multinode %s is placed by the operator", field.WordComponent)
//
//	err.In("v1beta1")    spec.components[2].podTemplate.spec.nodeName: a multinode component is placed by the operator
//	err.In("v1alpha1")   spec.services[Decode].extraPodSpec.nodeName: a multinode service is placed by the operator
//
// Errors have the constructors of Kubernetes' own package of this name, which In returns.
package field
