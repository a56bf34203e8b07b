// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storageversion rewrites objects that are stored in an older version of their kind. The API server converts such an object at
// every read. It also keeps the older version in status.storedVersions of the CustomResourceDefinition, so that the older version can never
// be removed.
//
//	status.storedVersions [v1alpha1 v1beta1], storage version v1beta1
//	  every object gets an empty patch, so that the API server stores it again, in v1beta1
//	  all objects are rewritten, and the definition has not changed meanwhile:
//	status.storedVersions [v1beta1], condition StorageMigrated True
//
// Objects are rewritten to the definition's current storage version. To return to a release that supports only v1alpha1, make v1alpha1 the
// storage version, and wait for the condition. Objects are listed from the API server, as metadata and in pages, and a patch contains only
// the UID and resourceVersion of its object. The API server does not write an object that is already stored in the right version. The
// operator stores no progress of its own, so after a restart it begins a rewrite again. An operator that manages only some namespaces
// cannot know how objects in other namespaces are stored, so it leaves storedVersions unchanged.
//
// The crdmigrator of Cluster API solves the same problem differently: it watches all definitions of the cluster, lists all namespaces,
// starts before every API server has learned of the new storage version, and does not report remaining or refused objects.
package storageversion
