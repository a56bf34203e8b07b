// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestTransferPolicyIsOfItsSchema checks that Problems uses the patterns and maximum lengths of the schema.
func TestTransferPolicyIsOfItsSchema(t *testing.T) {
	raw, err := os.ReadFile("../../../config/crd/bases/nvidia.com_dynamographdeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name != GroupVersion.Version {
			continue
		}
		schema := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["experimental"].Properties["kvTransferPolicy"]
		key, topology, domain := schema.Properties["labelKey"], schema.Properties["clusterTopologyName"], schema.Properties["domain"]
		if key.Pattern != kvLabelKeyPattern || domain.Pattern != kvDomainPattern {
			t.Errorf("patterns are %q and %q", key.Pattern, domain.Pattern)
		}
		if *domain.MaxLength != kvMaxDomain || *topology.MaxLength != kvMaxTopologyName {
			t.Errorf("lengths are %d and %d", *domain.MaxLength, *topology.MaxLength)
		}
		if len(schema.XValidations) != 3 {
			t.Errorf("%d rules about several fields; Problems has three", len(schema.XValidations))
		}
		return
	}
	t.Error("no schema of v1beta1")
}
