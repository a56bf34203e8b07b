// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A restart that is requested while an update is paused", func() {
	It("begins when the update is resumed, and recreates nothing before", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-restart", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		before := w.uids()
		watcher := w.followGenerations(0.5)

		By("the update is paused, and a restart is requested")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":"true"}}}`)
		w.setImage("g", "Decode", "example.com/vllm:2")
		w.patch("g", `{"spec":{"restart":{"id":"one"}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RolloutPaused",
			"the update is paused", "restart one begins when the update is neither paused nor limited by its partition")
		Expect(w.dgd("g").Status.Restart).To(HaveValue(And(HaveField("ObservedID", "one"), HaveField("Phase", nvidiav1alpha1.RestartPending))))
		Expect(w.uids()).To(Equal(before), "a replica was recreated")

		By("it is resumed")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":null}}}`)
		w.restarted("g", "one")
		w.ready("g")
		watcher.stop()
		Expect(w.oneGeneration()).To(Succeed())
		Expect(w.allNew(before, 9)).To(Succeed())
		for _, pod := range w.all() {
			Expect(pod.Annotations).To(HaveKeyWithValue(render.AnnotationRestart, "one"), "pod %s", pod.Name)
			if pod.Labels[render.LabelComponent] == "Decode" {
				Expect(pod.Spec.Containers[0].Image).To(Equal("example.com/vllm:2"), "pod %s", pod.Name)
			}
		}
	}, SpecTimeout(suite.Timeout()))
})
