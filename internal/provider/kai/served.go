// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Served reads the definition of KAI's PodGroups, and names the fields that Trellis needs and the definition lacks; "" if it lacks none.
// KAI 0.15 introduced subgroups with a minimum number of children. The API server of an older KAI drops these fields silently, so that KAI
// would place only a part of a graph.
func Served(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Name != PodGroupKind.Version || !version.Served || version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
		subGroup := apiextensionsv1.JSONSchemaProps{}
		if items := spec.Properties["subGroups"].Items; items != nil && items.Schema != nil {
			subGroup = *items.Schema
		}
		for _, field := range []struct {
			of   apiextensionsv1.JSONSchemaProps
			name string
		}{{spec, "minSubGroup"}, {spec, "topologyConstraint"}, {subGroup, "minSubGroup"}, {subGroup, "parent"},
			{subGroup, "topologyConstraint"}} {
			if _, known := field.of.Properties[field.name]; !known {
				return fmt.Sprintf("the PodGroup of the installed KAI Scheduler has no %s; KAI 0.15 or newer is needed", field.name)
			}
		}
		return ""
	}
	return fmt.Sprintf("%s is not served in version %s; KAI Scheduler 0.15 or newer is needed", crd.Name, PodGroupKind.Version)
}
