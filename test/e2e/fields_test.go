// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A deployment written in v1beta1", func() {
	// Workers of a graph with a transfer policy find in their labels where they are, whichever scheduler chose their node. The frontend is asked for nothing.
	It("has workers that find in their labels where they are, for its transfer policy", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "kv-transfer", racks(1, 8, "a/r0", "b/r0")...)
		w.applyText(strings.ReplaceAll(`apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  topologyConstraint: {clusterTopologyName: kv-transfer, packDomain: zone}
  experimental:
    kvTransferPolicy: {labelKey: RACK, domain: rack, enforcement: preferred, preferredWeight: 0.5}
  components:
  - name: Frontend
    type: frontend
    podTemplate: {spec: {containers: [{name: main, image: "example.com/frontend:1"}]}}
  - name: Decode
    type: decode
    replicas: 2
    podTemplate: {spec: {containers: [{name: main, image: "example.com/vllm:1", resources: {limits: {nvidia.com/gpu: 4}}}]}}
`, "RACK", rackKey))
		w.ready("g")
		w.until("each worker has the rack of its node in its labels", func() error {
			for _, pod := range w.of("Decode") {
				node := get(w, &corev1.Node{}, "", pod.Spec.NodeName)
				if got, want := pod.Labels[rackKey], node.Labels[rackKey]; want == "" || got != want {
					return fmt.Errorf("pod %s on %s: %q, want %q", pod.Name, node.Name, got, want)
				}
			}
			return nil
		})
		for _, pod := range w.of("Decode") {
			env := map[string]string{}
			for _, e := range pod.Spec.Containers[0].Env {
				env[e.Name] = e.Value
			}
			for name, want := range map[string]string{"DYN_KV_TRANSFER_DOMAIN": "rack", "DYN_KV_TRANSFER_ENFORCEMENT": "preferred", "DYN_KV_TRANSFER_PREFERRED_WEIGHT": "0.5"} {
				Expect(env).To(HaveKeyWithValue(name, want), "pod %s", pod.Name)
			}
		}
		for _, pod := range w.of("Frontend") {
			Expect(pod.Labels).NotTo(HaveKey(rackKey), "the frontend's labels")
		}
	}, SpecTimeout(suite.Timeout()))

	// The first minAvailable replicas of a component start together or not at all, and those after them one by one.
	It("starts the first minAvailable replicas together or not at all, and the others one by one", func(ctx SpecContext) {
		w := newWorld(ctx, "min-available", racks(1, 8, "a/r0")...)
		w.applyText(`apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  topologyConstraint: {clusterTopologyName: min-available}
  components:
  - name: Decode
    type: decode
    replicas: 3
    minAvailable: 2
    topologyConstraint: {packDomain: rack}
    podTemplate: {spec: {containers: [{name: main, image: "example.com/vllm:1", resources: {limits: {nvidia.com/gpu: 8}}}]}}
`)
		w.hasCondition("g", nvidiav1beta1.ConditionPlaced, metav1.ConditionFalse, "NeverFits", "0 of 3 packed replicas are placed", "no rack has 2 hosts: the largest has 1", "2 pods x 8 nvidia.com/gpu")
		for ordinal := range int32(3) { // one of them would fit
			w.nothingReleasedOf("Decode", ordinal)
		}
		w.addHosts(racks(2, 8, "a/r0")[1:]...)
		w.hasCondition("g", nvidiav1beta1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "2 of 3 packed replicas are placed. Decode-2: ")
		w.addHosts(racks(3, 8, "a/r0")[2:]...)
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))
})
