// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// ConditionStorageMigrated is the condition of a CustomResourceDefinition that reports whether all its objects are stored in its storage
// version.
const ConditionStorageMigrated apiextensionsv1.CustomResourceDefinitionConditionType = "StorageMigrated"

// Reasons of ConditionStorageMigrated.
const (
	reasonMigrated        = "Migrated"
	reasonRewriting       = "Rewriting"
	reasonRefused         = "Refused"
	reasonOtherNamespaces = "OtherNamespaces"
)

// maxNamed is how many refused objects a message names.
const maxNamed = 3

// revision identifies a state of a definition's spec, which contains the storage version.
type revision struct {
	uid        types.UID
	generation int64
}

func revisionOf(crd *apiextensionsv1.CustomResourceDefinition) revision {
	return revision{crd.UID, crd.Generation}
}

// storageVersion returns the version in which objects are currently written.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return ""
}

// outdated returns the versions, other than the storage version, in which objects may be stored.
func outdated(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, version := range crd.Status.StoredVersions {
		if version != storageVersion(crd) {
			versions = append(versions, version)
		}
	}
	return versions
}

// resourceOf returns the resource of the definition's objects, in the storage version.
func resourceOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: crd.Spec.Group, Version: storageVersion(crd), Resource: crd.Spec.Names.Plural}
}

func condition(status apiextensionsv1.ConditionStatus, reason, message string) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{Type: ConditionStorageMigrated, Status: status, Reason: reason, Message: message}
}

func migrated(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionCondition {
	return condition(apiextensionsv1.ConditionTrue, reasonMigrated, fmt.Sprintf("all objects are stored as %s", storageVersion(crd)))
}

func rewriting(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionCondition {
	return condition(apiextensionsv1.ConditionFalse, reasonRewriting,
		fmt.Sprintf("objects stored as %s are rewritten as %s", strings.Join(outdated(crd), ", "), storageVersion(crd)))
}

func otherNamespaces(crd *apiextensionsv1.CustomResourceDefinition, managed []string) apiextensionsv1.CustomResourceDefinitionCondition {
	return condition(apiextensionsv1.ConditionFalse, reasonOtherNamespaces,
		fmt.Sprintf("the operator manages namespaces %s only and has rewritten their objects as %s. "+
			"A cluster admin has to rewrite those of all others and to remove %s from status.storedVersions: see docs/migrate.md",
			strings.Join(managed, ", "), storageVersion(crd), strings.Join(outdated(crd), ", ")))
}

func refused(crd *apiextensionsv1.CustomResourceDefinition, objects []refusal) apiextensionsv1.CustomResourceDefinitionCondition {
	var named []string
	for _, object := range objects[:min(len(objects), maxNamed)] {
		named = append(named, object.String())
	}
	text := limit.Join(named, len(objects), maxNamed, "; ")
	return condition(apiextensionsv1.ConditionFalse, reasonRefused, fmt.Sprintf("%d objects cannot be rewritten as %s: %s", len(objects),
		storageVersion(crd), text))
}

// refusal is an object that the API server refuses to write.
type refusal struct {
	types.NamespacedName
	err error
}

func (r refusal) String() string { return r.NamespacedName.String() + ": " + r.err.Error() }

// shrink removes the outdated versions from the status. It returns false if the definition has changed since its objects were rewritten.
func shrink(crd *apiextensionsv1.CustomResourceDefinition, rewritten revision) bool {
	if revisionOf(crd) != rewritten {
		return false
	}
	crd.Status.StoredVersions = slices.DeleteFunc(crd.Status.StoredVersions, func(version string) bool {
		return version != storageVersion(crd)
	})
	return true
}
