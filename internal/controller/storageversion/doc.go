// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storageversion rewrites objects that are stored in an older version of their kind. The API server converts such an object at
// every read, and keeps its version in the definition's status.storedVersions, so that the version can never be removed.
//
//	status.storedVersions [v1alpha1 v1beta1], storage version v1beta1
//	  every object gets a patch that changes nothing: the API server writes it, in v1beta1
//	  all of them listed and written, and the definition still the same
//	status.storedVersions [v1beta1], condition StorageMigrated True
//
// The version to rewrite to is the definition's storage version, whatever that is: to move back to a release that knows v1alpha1 only, make
// v1alpha1 the storage version, and wait for the condition. Objects are listed as metadata, in pages, past every cache, and nothing
// but their identity is sent. An object that is stored in the right version already is not written by such a patch. Nothing is kept but in
// the API: after a restart a pass begins again. An operator limited to namespaces cannot know what is stored in the others; it leaves
// storedVersions alone.
//
// The crdmigrator of Cluster API does the same in other conditions: it watches all definitions of the cluster, lists all namespaces,
// begins before every API server has learned of the new storage version, and does not report what is left or refused.
package storageversion
