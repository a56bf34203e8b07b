// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestObserveWithoutSiblings: the scaling groups are deleted while the deployment is looked at.
func TestObserveWithoutSiblings(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := trellisv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	empty := fake.NewClientBuilder().WithScheme(scheme).Build()
	dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker}}}")
	groups := providertest.Groups(t, dgd, specs.Grove.Name)
	o, err := New(empty, empty).Observe(t.Context(), empty, groups)
	if err != nil || !o.Blind || o.Placed {
		t.Errorf("%+v %v", o, err)
	}
	if err := New(empty, empty).Apply(t.Context(), &nvidiav1beta1.DynamoGraphDeployment{}, nil); err != nil {
		t.Error(err)
	}
}
