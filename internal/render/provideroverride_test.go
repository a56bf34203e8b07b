// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestOverridesNotActedOn: what is understood is acted on under Grove, and warned of under other providers; anything else is warned of always.
func TestOverridesNotActedOn(t *testing.T) {
	const root, unit, leader, worker = "spec.providerOverride", "spec.services[A].providerOverride", "spec.services[A].multinode.leader", "spec.services[A].multinode.worker"
	const good = `
metadata: {annotations: {nvidia.com/grove-update-strategy: OnDelete}}
spec:
  providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueSet, value: {spec: {template: {topologyConstraint: {packDomain: zone}}}}}
  components:
  - name: A
    providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueScalingGroupConfig, value: {topologyConstraint: {packDomain: rack}}}
    multinode:
      nodeCount: 2
      leader: {providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {packDomain: host}}}}
      worker: {providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {pack: {required: host}}}}}
`
	const strange = `
spec:
  providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {replicas: 2, template: {topologyConstraint: {}}}}}
  components:
  - name: A
    providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueTemplateSpec, value: {topologyConstraint: {}}}
    multinode:
      nodeCount: 2
      leader: {providerOverride: {apiVersion: grove.io/v2, value: {topologyConstraint: {packDomain: host}}}}
      worker: {providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {spread: host}}}}
`
	const (
		atLeader, atWorker = "spec.services[A].roles[leader].providerOverride", "spec.services[A].roles[worker].providerOverride"
		roles              = `
spec:
  components:
  - name: A
    multinode: {nodeCount: 2, leader: {providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {packDomain: host}}}}}
    roles:
    - {name: leader, providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {packDomain: rack}}}}
    - {name: worker, providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {spread: host}}}}
`
	)
	for name, c := range map[string]struct {
		text, provider string
		want           []string
	}{
		"roles, Grove":          {roles, specs.Grove.Name, []string{leader, atWorker}},
		"roles, Gates":          {roles, specs.Gates.Name, []string{leader, atLeader, atWorker}},
		"understood, Grove":     {good, specs.Grove.Name, nil},
		"understood, Gates":     {good, specs.Gates.Name, []string{"metadata.annotations[nvidia.com/grove-update-strategy]", root, unit, leader, worker}},
		"not understood, Grove": {strange, specs.Grove.Name, []string{root, unit, leader, worker}},
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(c.text), dgd); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, notActedOn(dgd, c.provider)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
