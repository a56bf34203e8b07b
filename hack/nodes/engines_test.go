// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// engineOf returns a gang of two pods that run a module of Dynamo with arguments, written as a YAML list without brackets.
func engineOf(module, args string) string {
	return fmt.Sprintf(`apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: engine, annotations: {trellis.dev/distinct-hosts: "true"}}
spec:
  topologyConstraint: {clusterTopologyName: hall, packDomain: zone}
  components:
  - name: Worker
    type: worker
    multinode: {nodeCount: 2}
    topologyConstraint: {packDomain: rack}
    podTemplate:
      spec:
        terminationGracePeriodSeconds: 5
        containers:
        - name: main
          image: localhost/engines:1
          command: [python3, -m, %s]
          args: [%s]
          env: [{name: SIZE, value: "2"}]
          resources: {limits: {nvidia.com/gpu: "2"}}
`, module, args)
}

// Each form of launch runs its engine's programs as they start: the real programs of Python, OpenSSH and Open MPI, and peers that wait, end
// and restart like vLLM, SGLang and Ray. No model is loaded.
var _ = Describe("A gang of an inference engine", func() {
	DescribeTable("finds its leader at first, after a lost pod, and after an update", func(ctx SpecContext, module, args string) {
		w := newWorld(ctx)
		w.measured("Ready at first", func() {
			w.apply(engineOf(module, args))
			w.ready("engine")
		})
		w.exchanged("names at first")
		leader, follower := w.gang()
		w.measured("Ready after a lost pod", func() {
			Expect(api.Delete(ctx, leader)).To(Succeed())
			w.renewed(leader, follower)
			w.ready("engine")
		})
		w.exchangedWithout("names after a lost pod", leader, follower)
		leader, follower = w.gang()
		w.measured("Ready after an update", func() {
			w.update("engine")
			w.renewed(leader, follower)
			w.ready("engine")
		})
		w.exchangedWithout("names after an update", leader, follower)
	},
		Entry("vLLM with its own processes", SpecTimeout(suite.Timeout()), "dynamo.vllm", `--tensor-parallel-size, "4"`),
		Entry("vLLM with Ray", SpecTimeout(suite.Timeout()), "dynamo.vllm",
			`--tensor-parallel-size, "4", --distributed-executor-backend, ray`),
		Entry("vLLM with elastic expert parallelism", SpecTimeout(suite.Timeout()), "dynamo.vllm",
			`--data-parallel-size, "4", --data-parallel-backend, ray, --enable-expert-parallel, --enable-elastic-ep`),
		Entry("vLLM with hybrid data parallelism", SpecTimeout(suite.Timeout()), "dynamo.vllm",
			`--data-parallel-size, "4", --enable-expert-parallel`),
		Entry("SGLang", SpecTimeout(suite.Timeout()), "dynamo.sglang", `--tp, "4"`),
		Entry("TensorRT-LLM with Open MPI", SpecTimeout(suite.Timeout()), "dynamo.trtllm", `--tensor-parallel-size, "4"`),
	)
})
