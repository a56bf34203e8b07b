// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
)

func installed(name string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = name
	crd.Spec.Group = grove.PodCliqueSetKind.Group
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: grove.PodCliqueSetKind.Version, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{}},
	}}
	return crd
}

// A definition whose names another one has is there, but nothing answers for it.
func TestProbeFindsNamesRefused(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	binding := installed(bindings)
	binding.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: `"ct" is already in use`},
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(installed(podCliqueSets), binding).Build()
	state, err := New(reader, reader).Probe(t.Context())
	if err != nil || state.Ready || state.Reason != nvidiav1beta1.ReasonAPINotServed || !strings.Contains(state.Message, `"ct" is already in use; take that name out of the other definition of the group grove.io`) {
		t.Errorf("%+v %v", state, err)
	}
	reader = fake.NewClientBuilder().WithScheme(scheme).WithObjects(installed(podCliqueSets), installed(bindings)).Build()
	if state, err := New(reader, reader).Probe(t.Context()); err != nil || !state.Ready {
		t.Errorf("nothing in the way: %+v %v", state, err)
	}
}
