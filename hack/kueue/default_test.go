// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// defaultQueue is the name of the LocalQueue that Kueue assigns to objects without a queue.
const defaultQueue = "default"

var _ = Describe("A namespace with a default queue of the real Kueue", Serial, func() {
	It("has a deployment without the label wait for quota as a unit", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", gpusPerHost)
		t.create(kueueObject("LocalQueue", t.namespace, defaultQueue, map[string]any{"clusterQueue": t.namespace}))
		of := t.graph("g", workers(1))
		of.Labels = nil
		t.create(of)
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "0 of 1 Workloads have quota in queue default", "insufficient", gpuResource)
		Expect(t.dgd("g").Labels).To(HaveKeyWithValue(render.LabelKueueQueue, defaultQueue))
		t.settle()
		Expect(t.uses(0)).To(Succeed(), "no pod has quota while the other one waits for it")

		By("raising the quota")
		t.gpus = 2 * gpusPerHost
		t.quotaIs(t.gpus)
		t.ready("g")
		t.settle()
		t.inOneRack(t.pods())

		By("scaling out: the new replica waits as a unit from the start")
		t.scale("g", "Worker", 2)
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "1 of 2 Workloads have quota in queue default")
		t.settle()
		for _, pod := range t.pods() {
			Expect(quota.WorkloadOf(&pod)).NotTo(BeEmpty(), "the Workload of pod %s", pod.Name)
		}

		By("leaving: without a default queue, and without the label")
		t.answered(func() error { return api.Delete(ctx, kueueObject("LocalQueue", t.namespace, defaultQueue, nil)) })
		t.patch("g", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`)
		t.ready("g")
		Expect(t.dgd("g").Labels).NotTo(HaveKey(render.LabelKueueQueue))
	}, SpecTimeout(suite.Timeout()))
})
