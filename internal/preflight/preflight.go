// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks, before the operator starts, that the CustomResourceDefinitions in the cluster are Trellis' own. Other operators
// define kinds with the same names (the Dynamo operator, Grove up to v0.1.0-alpha.8). If two operators own one definition, they overwrite
// each other's schema, and the API server silently drops fields. Definitions of a later version of Trellis have fields that this operator
// would silently ignore.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/version"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=dynamographdeployments.nvidia.com;dynamographdeploymentscalingadapters.nvidia.com;clustertopologies.grove.io;scalinggroups.trellis.dev;graphplacements.trellis.dev;dynamoworkermetadatas.nvidia.com,verbs=get

// expected contains, for each definition, the field that identifies it as Trellis' own. An empty field allows a definition of any owner,
// because Trellis only reads its objects.
var expected = []struct {
	name, field, owner string
}{
	{"dynamographdeployments.nvidia.com", "spec.topologyConstraint.preferredPackDomain", "the Dynamo operator"},
	{"dynamographdeploymentscalingadapters.nvidia.com", "status.observedGeneration", "the Dynamo operator"},
	{"clustertopologies.grove.io", "status.levels", "Grove up to v0.1.0-alpha.8"},
	{"scalinggroups.trellis.dev", "spec.revision", "another version of Trellis"},
	{"graphplacements.trellis.dev", "spec.deploymentUID", "another version of Trellis"},
	{"dynamoworkermetadatas.nvidia.com", "", "another release of Dynamo"},
}

// converted are the definitions that must serve v1beta1.
var converted = map[string]bool{"dynamographdeployments.nvidia.com": true, "dynamographdeploymentscalingadapters.nvidia.com": true}

// specOnly are the definitions without a status subresource.
var specOnly = map[string]bool{"graphplacements.trellis.dev": true}

// added maps definitions to a field that the definitions of earlier releases lack. Without this field in the definition, the API server
// would drop it from every object.
var added = map[string]string{"scalinggroups.trellis.dev": "status.begun"}

// versions are the versions in which objects may be stored.
var versions = []string{"v1alpha1", "v1beta1"}

// Check reads all definitions, and returns the problems of all of them in one error.
func Check(ctx context.Context, reader client.Reader) error {
	var problems []error
	newer := map[string][]string{}
	for _, want := range expected {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: want.name}, crd)
		switch {
		case apierrors.IsNotFound(err):
			problems = append(problems, fmt.Errorf("preflight: custom resource definition %s is not installed; install Trellis' definitions "+
				"(kubectl apply --server-side -k config/crd, or the chart with crds.install=true)", want.name))
		case err != nil:
			problems = append(problems, fmt.Errorf("preflight: reading custom resource definition %s: %w", want.name, err))
		case isNewer(crd):
			of := crd.Annotations[version.Annotation]
			newer[of] = append(newer[of], crd.Name)
		default:
			problems = append(problems, judge(crd, want.field, want.owner))
		}
	}
	for _, of := range slices.Sorted(maps.Keys(newer)) {
		problems = append(problems, fmt.Errorf("preflight: custom resource definitions %s are those of Trellis %s, and this operator is %s: it "+
			"would ignore fields that they have and it does not know. Upgrade the operator to %s, or apply the definitions of its own release "+
			"(kubectl apply --server-side -k config/crd, or the chart with crds.install=true)",
			strings.Join(newer[of], ", "), of, version.Source, of))
	}
	return errors.Join(problems...)
}

// isNewer reports whether a definition is from a later version of Trellis than the operator. An upgrade of Trellis applies the definitions
// before the operator, so Check checks the fields of a definition only if it is not newer. A definition without a version is from v0.2.0 or
// earlier, or is not Trellis' own.
func isNewer(crd *apiextensionsv1.CustomResourceDefinition) bool {
	definition, err := utilversion.ParseSemantic(crd.Annotations[version.Annotation])
	return err == nil && utilversion.MustParseSemantic(version.Source).LessThan(definition)
}

func judge(crd *apiextensionsv1.CustomResourceDefinition, field, owner string) error {
	fix := fmt.Sprintf("It seems to belong to %s. Stop that operator first, then install Trellis' definitions with "+
		"kubectl apply --server-side --force-conflicts -k config/crd; objects are kept. docs/migrate.md has every step", owner)
	if others := slices.DeleteFunc(slices.Clone(crd.Status.StoredVersions), func(v string) bool {
		return slices.Contains(versions, v)
	}); len(others) > 0 {
		return fmt.Errorf("preflight: objects of %s are stored as %s, which Trellis does not serve. Rewrite them as v1beta1 first, "+
			"and remove %s from status.storedVersions. %s", crd.Name, strings.Join(others, ", "), strings.Join(others, ", "), fix)
	}
	if c := crd.Spec.Conversion; len(crd.Spec.Versions) > 1 && (c == nil || c.Strategy != apiextensionsv1.WebhookConverter) {
		return fmt.Errorf("preflight: custom resource definition %s has several versions but no conversion webhook: "+
			"objects would "+
			"lose renamed fields. Apply it as shipped: kubectl apply --server-side -k config/crd, or the chart with crds.install=true",
			crd.Name)
	}
	if converted[crd.Name] && !serves(crd, "v1beta1") && serves(crd, "v1alpha1") && judgeVersion(crd, field, fix) == nil {
		return fmt.Errorf("preflight: custom resource definition %s is that of an earlier release of Trellis, which does not serve v1beta1. "+
			"Apply the one of "+
			"this release: kubectl apply --server-side -k config/crd, or the chart with crds.install=true; objects are kept and rewritten", crd.Name)
	}
	if since := added[crd.Name]; since != "" && judgeVersion(crd, field, fix) == nil && judgeVersion(crd, since, fix) != nil {
		return fmt.Errorf("preflight: custom resource definition %s is that of an earlier release of Trellis, without the field %s. Apply the "+
			"one of this release: kubectl apply --server-side -k config/crd, or the chart with crds.install=true", crd.Name, since)
	}
	return judgeVersion(crd, field, fix)
}

func serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Served
	})
}

// judgeVersion checks version v1alpha1, which every expected definition serves.
func judgeVersion(crd *apiextensionsv1.CustomResourceDefinition, field, fix string) error {
	for _, version := range crd.Spec.Versions {
		if version.Name != "v1alpha1" || !version.Served {
			continue
		}
		if field == "" {
			return nil
		}
		if version.Schema == nil || !has(version.Schema.OpenAPIV3Schema, strings.Split(field, ".")) {
			return fmt.Errorf("preflight: custom resource definition %s has no field %s, so it is not Trellis'. %s", crd.Name, field, fix)
		}
		if !specOnly[crd.Name] && (version.Subresources == nil || version.Subresources.Status == nil) {
			return fmt.Errorf("preflight: custom resource definition %s has no status subresource, so it is not Trellis'. %s", crd.Name, fix)
		}
		return nil
	}
	return fmt.Errorf("preflight: custom resource definition %s does not serve version v1alpha1. %s", crd.Name, fix)
}

func has(schema *apiextensionsv1.JSONSchemaProps, path []string) bool {
	for _, name := range path {
		if schema == nil {
			return false
		}
		next, ok := schema.Properties[name]
		if !ok {
			return false
		}
		schema = &next
	}
	return schema != nil
}
