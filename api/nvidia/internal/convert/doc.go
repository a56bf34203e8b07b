// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert turns DynamoGraphDeployments and their scaling adapters of one API version into the other. It is pure, and it works on
// decoded JSON, not on Go structs: a struct rewrites quantities ("1000m" becomes "1") and cannot tell an empty list from none, and a user's
// `kubectl diff` would show both. Package v1alpha1 wraps it in types.
//
// Each direction has a plain translation, a total function that loses what the other version cannot say: toBeta and toAlpha. What is lost
// is remembered in an annotation of the converted object, as sparse JSON of the version it came from. Going back:
//
//	source := translate(live, memory)    the plain translation; memory reports which of several places a value belongs in
//	source += memory's remainder         recorded as operations, each with the value that it found
//
// The memory holds the hash of the object it was made for. While the hash is that of the live object, no one has edited it, and the
// remainder is exactly the difference between the plain translation and what was there: the way back is the identity, whatever was written.
//
// After an edit, the live object wins leaf by leaf. Values always come from it, because the memory says only where they go. An operation
// of the remainder is applied only where it finds the value it was recorded with, and only if the result, translated again, differs from
// the live object nowhere that the plain translation did not: so nothing visible ever returns from memory.
//
// v1alpha1 has ten fields for what v1beta1 has one podTemplate for. podtemplatetobeta.go merges them and podtemplatetoalpha.go separates
// them. fresh.go places them for an object that has never been written in v1alpha1, according to its managedFields: an object that was
// written there needs no memory if all of it was in extraPodSpec, and must read so for as long as a manager of v1alpha1 owns fields of it.
//
// Nothing here fails. An object that cannot be understood is carried along as far as it can be, because a conversion that fails closes
// every list and watch of its kind. A memory that cannot be read is ignored, and Problem reports it.
package convert
