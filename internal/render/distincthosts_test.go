// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestDistinctHosts: the annotation of the deployment holds for its multinode components, unless they have their own.
func TestDistinctHosts(t *testing.T) {
	tests := map[string]struct {
		deployment, component string
		single                bool
		want                  bool
	}{
		"nowhere":                  {},
		"on the deployment":        {deployment: "true", want: true},
		"on the component":         {component: "true", want: true},
		"not on the component":     {deployment: "true", component: "false"},
		"replicas of a single pod": {deployment: "true", single: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := nvidiav1beta1.ComponentSpec{Name: "A", Type: nvidiav1beta1.ComponentTypeWorker, PodTemplate: &corev1.PodTemplateSpec{}}
			if !test.single {
				c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 2}
			}
			if test.component != "" {
				c.PodTemplate.Annotations = map[string]string{AnnotationDistinctHosts: test.component}
			}
			dgd := &nvidiav1beta1.DynamoGraphDeployment{Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{c}}}
			dgd.Name, dgd.Namespace = "g", "ns"
			if test.deployment != "" {
				dgd.Annotations = map[string]string{AnnotationDistinctHosts: test.deployment}
			}
			g, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name})
			if err != nil {
				t.Fatal(err)
			}
			s := g.Components[0]
			sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Multinode: s.Multinode, Roles: s.Roles}}
			if got := DistinctHosts(sg); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
