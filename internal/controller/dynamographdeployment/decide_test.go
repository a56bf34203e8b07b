// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A condition names the field in the words of v1beta1, and in those of v1alpha1 when the deployment says what only that version can.
func TestConditionsNameTheFieldAsItIsWritten(t *testing.T) {
	beta := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: g, namespace: ns}
spec:
  components:
  - {name: Frontend, type: frontend}
  - {name: Worker, type: worker, topologyConstraint: {packDomain: rack}}
`), beta); err != nil {
		t.Fatal(err)
	}
	alpha := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: g, namespace: ns}
spec:
  pvcs: [{name: models, create: false}]
  services:
    Frontend: {componentType: frontend, ingress: {enabled: false}}
    Worker: {componentType: worker, topologyConstraint: {packDomain: rack}}
`), alpha); err != nil {
		t.Fatal(err)
	}
	written := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := alpha.ConvertTo(written); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dgd       *nvidiav1beta1.DynamoGraphDeployment
		want, not string
	}{
		"v1beta1":  {beta, "spec.topologyConstraint.clusterTopologyName", "services"},
		"v1alpha1": {written, "spec.topologyConstraint.topologyProfile", "components"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := decide(observed{dgd: tc.dgd, stated: constraint.StatementOf(tc.dgd), settled: tc.dgd}, render.Platform{})
			if problem == nil || problem.reason != nvidiav1beta1.ReasonInvalid {
				t.Fatalf("problem %v, want %s", problem, nvidiav1beta1.ReasonInvalid)
			}
			if !strings.Contains(problem.message, tc.want) || strings.Contains(problem.message, tc.not) {
				t.Errorf("%q, want %s and no %s", problem.message, tc.want, tc.not)
			}
		})
	}
}
