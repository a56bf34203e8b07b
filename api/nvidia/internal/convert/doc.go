// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts DynamoGraphDeployments and their scaling adapters between API versions. It is pure, and works on decoded JSON,
// not on Go types: a Go type rewrites quantities ("1000m" becomes "1") and cannot distinguish an empty list from a missing one, so kubectl
// diff would show changes that the user did not make. Package v1alpha1 has functions for Go types.
//
// Each direction has a plain translation, toBeta or toAlpha: a total function that drops the fields that the other version does not have.
// The dropped data is kept in the memory, an annotation of the converted object with sparse JSON of the original version. The way back is
//
//	source := translate(live, memory)    the plain translation; memory decides in which of several fields a value belongs
//	source += memory's remainder         operations, each with the hash of the value that it replaces
//
// The memory contains the hash of its converted object. While the live object has this hash, nobody has edited the object. Then the
// remainder is exactly the difference between the plain translation and the original, so the way back restores the original exactly.
//
// After an edit, the live object takes precedence for every leaf. All values come from the live object; the memory only decides in which
// fields they belong. An operation of the remainder is applied only if the value at its path has the recorded hash, and only if the result,
// translated again, differs from the live object only where the plain translation differs as well. So the memory never restores a value
// that contradicts the live object.
//
// v1alpha1 has ten fields for the one podTemplate of v1beta1. podtemplatetobeta.go merges them and podtemplatetoalpha.go separates them.
// fresh.go chooses the v1alpha1 fields for an object that, according to its managedFields, has never been written in v1alpha1. An object
// that was written in v1alpha1 with all values in extraPodSpec needs no memory, and must keep that form while a v1alpha1 manager owns
// fields of it.
//
// No conversion fails, because a failing conversion breaks every list and watch of its kind. An object that does not match its schema is
// converted as far as possible. A memory that cannot be read is ignored, and Problem reports it.
package convert
