// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

func TestStated(t *testing.T) {
	byField := &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "hall", PackDomain: "rack"}
	onComponent := []nvidiav1beta1.ComponentSpec{{Name: "a", TopologyConstraint: &nvidiav1beta1.TopologyConstraint{PackDomain: "rack"}}}
	annotated := map[string]string{AnnotationTopology: "floor", AnnotationRequired: "zone"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		spec        nvidiav1beta1.DynamoGraphDeploymentSpec
		stated      bool
		topology    string
	}{
		"nothing":                          {},
		"the deployment":                   {spec: nvidiav1beta1.DynamoGraphDeploymentSpec{TopologyConstraint: byField}, stated: true, topology: "hall"},
		"a component without a name":       {spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: onComponent}, stated: true},
		"annotations":                      {annotations: annotated, stated: true, topology: "floor"},
		"the name of a topology alone":     {annotations: map[string]string{AnnotationTopology: "floor"}},
		"annotations beside the component": {annotations: annotated, spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: onComponent}, stated: true},
		"annotations beside the deployment": {
			annotations: annotated, spec: nvidiav1beta1.DynamoGraphDeploymentSpec{TopologyConstraint: byField}, stated: true, topology: "hall",
		},
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}, Spec: tc.spec}
		if stated, topology := Stated(dgd), TopologyName(dgd); stated != tc.stated || topology != tc.topology {
			t.Errorf("%s: stated %v, topology %q; want %v, %q", name, stated, topology, tc.stated, tc.topology)
		}
		without := WithoutAnnotations(dgd)
		if FromAnnotations(without).Set() || len(dgd.Annotations) != len(tc.annotations) {
			t.Errorf("%s: annotations left are %v, of the original %v", name, without.Annotations, dgd.Annotations)
		}
	}
	if Stated(nil) || TopologyName(nil) != "" {
		t.Error("no deployment states a constraint")
	}
}
