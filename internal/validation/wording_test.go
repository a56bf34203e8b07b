// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// TestWording: who writes v1beta1 reads its paths and words, with components counted in the order in which they were written.
func TestWording(t *testing.T) {
	written := &v1beta1.DynamoGraphDeployment{}
	written.Name = "g"
	written.Spec.Components = []v1beta1.ComponentSpec{{Name: "Zeta"}, {Name: "Alpha"}}
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := dgd.ConvertFrom(written); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ alpha, beta string }{
		"constraint":         {"spec.services[Alpha].topologyConstraint.packDomain", "spec.components[1].topologyConstraint.packDomain"},
		"order":              {"spec.services[Zeta].replicas", "spec.components[0].replicas"},
		"an unknown service": {"spec.services[Other].replicas", "spec.components[Other].replicas"},
		"all services":       {"spec.services: services were added", "spec.components: components were added"},
		"profile":            {"spec.topologyConstraint.topologyProfile is required", "spec.topologyConstraint.clusterTopologyName is required"},
		"gpu":                {"spec.services[Alpha].resources.limits.gpu", "spec.components[1].podTemplate.spec.containers[main].resources.limits[nvidia.com/gpu]"},
		"another resource":   {"spec.services[Alpha].resources.limits.custom[rdma/ib]", "spec.components[1].podTemplate.spec.containers[main].resources.limits[rdma/ib]"},
		"memory":             {"spec.services[Alpha].resources.requests.memory", "spec.components[1].podTemplate.spec.containers[main].resources.requests.memory"},
		"main container":     {"spec.services[Alpha].extraPodSpec.mainContainer.image", "spec.components[1].podTemplate.spec.containers[main].image"},
		"pod":                {"spec.services[Alpha].extraPodSpec.nodeName", "spec.components[1].podTemplate.spec.nodeName"},
		"claim":              {"spec.services[Alpha].volumeMounts[0].name", "spec.components[1].podTemplate.spec.containers[main].volumeMounts[0].name"},
		"annotation":         {"spec.services[Alpha].annotations[a/b]", "spec.components[1].podTemplate.metadata.annotations[a/b]"},
		"type":               {"spec.services[Alpha].componentType", "spec.components[1].type"},
		"prose":              {"service constraints must be narrower; Services are", "component constraints must be narrower; Components are"},
		"a user's words":     {`collides with service "my service"`, `collides with component "my service"`},
		"another word":       {"the ServiceAccount and its microservice", "the ServiceAccount and its microservice"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := WordingOf(hub.Of(dgd), "v1beta1")
			if got := w.Text(test.alpha); got != test.beta {
				t.Errorf("got  %s\nwant %s", got, test.beta)
			}
			errs := w.Errors(field.ErrorList{{Type: field.ErrorTypeInvalid, Field: test.alpha, Detail: test.alpha, BadValue: "service"}})
			if errs[0].Field != test.beta || errs[0].Detail != test.beta || errs[0].BadValue != "service" {
				t.Errorf("error %+v", errs[0])
			}
			if got := (WordingOf(hub.Of(dgd), "v1alpha1")).Text(test.alpha); got != test.alpha {
				t.Errorf("v1alpha1 reads %q", got)
			}
		})
	}
}
