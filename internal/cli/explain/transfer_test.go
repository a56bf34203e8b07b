// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// TestTransferAdvice: the report says which replicas have no partner, and which scale-out would give them one; what has no capacity is not
// advised.
func TestTransferAdvice(t *testing.T) {
	manifests := []string{`
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: hall}
spec: {levels: [{domain: zone, key: zone}, {domain: rack, key: rack}]}
`, `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: split, namespace: team}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  experimental: {kvTransferPolicy: {clusterTopologyName: hall, domain: rack, enforcement: preferred, preferredWeight: 1}}
  services:
    Prefill: {componentType: worker, subComponentType: prefill, replicas: 1, resources: {limits: {gpu: "8"}}, extraPodSpec: {mainContainer: {image: app}}}
    Decode: {componentType: worker, subComponentType: decode, replicas: 2, resources: {limits: {gpu: "8"}}, extraPodSpec: {mainContainer: {image: app}}}
`}
	for _, hosts := range []int{1, 2} {
		all := manifests
		for _, host := range []struct {
			rack  string
			hosts int
		}{{"r0", 2}, {"r1", hosts}} {
			for i := range host.hosts {
				all = append(all, fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %[1]s-%[2]d, labels: {zone: a, rack: %[1]s}}
status:
  allocatable: {nvidia.com/gpu: "8", cpu: "64", memory: 512Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
`, host.rack, i))
			}
		}
		w := newWorld(t, all...).resolve("split-prefill-0 node r0-0\nsplit-decode-0 node r0-1\nsplit-decode-1 node r1-0")
		want := []string{
			"1 of 2 decode replicas have prefill in their rack, 1 of 1 prefill replicas have decode",
			"1 decode replica in a/r1 has no prefill in its rack",
		}
		if hosts > 1 {
			want = append(want, "scaling Prefill from 1 to 2 would give 2 of 2 decode replicas prefill in their rack")
		}
		if diff := cmp.Diff(want, Build(w.Subject).Transfer); diff != "" {
			t.Errorf("with %d hosts in the second rack:\n%s", hosts, diff)
		}
		w.Pods[0].Labels[render.LabelWorkerHash] = "former"
		apart := "0 of 2 decode replicas have prefill in their rack, 0 of 1 prefill replicas have decode"
		if got := Build(w.Subject).Transfer; len(got) == 0 || got[0] != apart {
			t.Errorf("replicas of two generations are partners: %q", got)
		}
	}
}
