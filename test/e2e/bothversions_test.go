// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// manifestsOf15 are manifests of Dynamo 1.5 that say the same in both versions, roles included.
var manifestsOf15 = map[string]string{
	"v1beta1": `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: g
  annotations: {trellis.dev/rolling-update-max-unavailable: "1", trellis.dev/rolling-update-max-surge: "0"}
spec:
  backendFramework: vllm
  topologyConstraint: {clusterTopologyName: TOPOLOGY, packDomain: zone}
  components:
  - name: Frontend
    type: frontend
    podTemplate: {spec: {containers: [{name: main, image: "example.com/frontend:1.5.0"}]}}
  - name: Prefill
    type: prefill
    replicas: 2
    multinode: {nodeCount: 2}
    roles: [{name: leader, replicas: 1}, {name: worker, replicas: 1}]
    topologyConstraint: {packDomain: rack}
    podTemplate:
      spec:
        containers:
        - name: main
          image: example.com/vllm-runtime:TAG
          command: [python3, -m, dynamo.vllm]
          args: [--model, chat, --disaggregation-mode, prefill]
          resources: {limits: {nvidia.com/gpu: "8"}}
  - name: Decode
    type: decode
    replicas: 4
    podTemplate:
      spec:
        containers:
        - name: main
          image: example.com/vllm-runtime:TAG
          command: [python3, -m, dynamo.vllm]
          args: [--model, chat, --disaggregation-mode, decode]
          resources: {limits: {nvidia.com/gpu: "8"}}
`,
	"v1alpha1": `apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata:
  name: g
  annotations: {trellis.dev/rolling-update-max-unavailable: "1", trellis.dev/rolling-update-max-surge: "0"}
spec:
  backendFramework: vllm
  topologyConstraint: {topologyProfile: TOPOLOGY, packDomain: zone}
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: "example.com/frontend:1.5.0"}}
    Prefill:
      componentType: worker
      subComponentType: prefill
      replicas: 2
      multinode: {nodeCount: 2}
      roles: [{name: leader, replicas: 1}, {name: worker, replicas: 1}]
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec:
        mainContainer:
          image: example.com/vllm-runtime:TAG
          command: [python3, -m, dynamo.vllm]
          args: [--model, chat, --disaggregation-mode, prefill]
    Decode:
      componentType: worker
      subComponentType: decode
      replicas: 4
      resources: {limits: {gpu: "8"}}
      extraPodSpec:
        mainContainer:
          image: example.com/vllm-runtime:TAG
          command: [python3, -m, dynamo.vllm]
          args: [--model, chat, --disaggregation-mode, decode]
`,
}

var _ = Describe("A manifest of Dynamo 1.5 with roles", func() {
	// What says the same in the other version replaces nothing, before and after an update in either.
	DescribeTable("is updated in step in either version, and replaces nothing when the other version is applied", func(
		ctx SpecContext, name string, managers map[string]string,
	) {
		w := newWorld(ctx, name, racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		apply := func(version, tag string) {
			GinkgoHelper()
			file := filepath.Join(GinkgoT().TempDir(), "g.yaml")
			text := strings.NewReplacer("TOPOLOGY", w.name, "TAG", tag).Replace(manifestsOf15[version])
			Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
			w.mustKubectl("apply", "--server-side", "--field-manager", managers[version], "--force-conflicts", "-f", file)
		}
		updated := func(tag string) {
			GinkgoHelper()
			w.until("all workers are of the image "+tag, func() error {
				for _, pod := range w.all() {
					if image := pod.Spec.Containers[0].Image; pod.Labels[render.LabelWorkerHash] != "" && image != "example.com/vllm-runtime:"+tag {
						return fmt.Errorf("pod %s has the image %s", pod.Name, image)
					}
				}
				return w.isUpdated()
			})
			w.ready("g")
		}
		stays := func(version, tag string) {
			GinkgoHelper()
			before, generation := w.uids(), w.dgd("g").Annotations[render.AnnotationWorkerHash]
			apply(version, tag)
			w.ready("g")
			Expect(w.uids()).To(Equal(before), "pods were replaced by what says the same in %s", version)
			Expect(w.dgd("g").Annotations).To(HaveKeyWithValue(render.AnnotationWorkerHash, generation))
		}
		apply("v1beta1", "1.5.0")
		w.ready("g")
		stays("v1alpha1", "1.5.0")
		watcher := w.followGenerations(0.5)
		apply("v1alpha1", "1.5.1")
		updated("1.5.1")
		stays("v1beta1", "1.5.1")
		apply("v1beta1", "1.5.2")
		updated("1.5.2")
		watcher.stop()
		Expect(watcher.seen).To(HaveLen(3), "the generations that there were")
	},
		Entry("by a manager of each version", suite.Core, SpecTimeout(suite.Timeout()), "both-versions",
			map[string]string{"v1alpha1": "former", "v1beta1": "current"}),
		Entry("by one manager", SpecTimeout(suite.Timeout()), "both-versions-one",
			map[string]string{"v1alpha1": "one", "v1beta1": "one"}),
	)
})
