// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// apply writes as the operator does: server-side, as one field owner.
func apply(ctx context.Context, object *unstructured.Unstructured, owner string) *unstructured.Unstructured {
	GinkgoHelper()
	applied, err := resourceOf(object).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: owner, Force: true})
	Expect(err).NotTo(HaveOccurred())
	return applied
}

var _ = Describe("KAI's definitions", labelKAI, func() {
	It("take a Topology whole, and refuse other levels in place: a change replaces the object", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		ct := providertest.Topology()
		topology, err := kai.RenderTopology(ct)
		Expect(err).NotTo(HaveOccurred())
		created := accepted(ctx, sent(topology, ""))
		step, why := kai.CompareTopology(ct, read[kai.Topology](created))
		Expect(step).To(Equal(kai.InSync), "just written: %s", why)
		ct.Spec.Levels = ct.Spec.Levels[1:]
		step, why = kai.CompareTopology(ct, read[kai.Topology](created))
		Expect(step).To(Equal(kai.Replace), "levels changed: %s", why)
		shorter, err := kai.RenderTopology(ct)
		Expect(err).NotTo(HaveOccurred())
		object := sent(shorter, "")
		Expect(resourceOf(object).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "x", Force: true})).
			Error().To(Satisfy(apierrors.IsInvalid), "levels were changed in place")
		hostFirst := providertest.Topology()
		hostFirst.Spec.Levels[0], hostFirst.Spec.Levels[3] = hostFirst.Spec.Levels[3], hostFirst.Spec.Levels[0]
		for i := range topology.Spec.Levels {
			topology.Spec.Levels[i].NodeLabel = hostFirst.Spec.Levels[i].Key
		}
		topology.Name = "host-first"
		refused(ctx, sent(topology, ""), "spec.levels")
	})

	It("take a PodGroup whole, and keep what KAI and others set when it is written again", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		g := providertest.KAI(GinkgoTB(), deployment("members"))
		want := kai.RenderPodGroup(g)
		object := accepted(ctx, sent(want, ""))
		apply(ctx, sent(want, ""), "trellis")

		foreign := object.DeepCopy()
		foreign.SetManagedFields(nil)
		foreign.Object["spec"] = map[string]any{"markUnschedulable": true, "schedulingBackoff": int64(1), "queue": "moved"}
		foreign.SetAnnotations(map[string]string{"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"})
		foreign.SetLabels(map[string]string{"kai.scheduler/node-pool": "gpus"})
		foreign.SetResourceVersion("")
		foreign.SetUID("")
		touched := apply(ctx, foreign, "kai")

		again := kai.RenderPodGroup(g)
		kai.Keep(again, read[kai.PodGroup](touched))
		wanted := sent(again, "")
		Expect(external.Missing(wanted, touched)).To(Equal("metadata.labels.kai.scheduler/queue"), "only the label of the queue follows")
		after := apply(ctx, wanted, "trellis")
		Expect(after.Object["spec"]).To(And(HaveKeyWithValue("markUnschedulable", true), HaveKeyWithValue("schedulingBackoff", int64(1)),
			HaveKeyWithValue("queue", "moved")))
		Expect(after.GetAnnotations()).To(HaveKeyWithValue("kai.scheduler/last-start-timestamp", Not(BeEmpty())), "KAI's marks")
		Expect(after.GetLabels()).To(HaveKeyWithValue("kai.scheduler/node-pool", "gpus"), "KAI's marks")
		Expect(external.Covers(wanted, after)).To(BeTrue(), "%s still differs: it would be written for ever", external.Missing(wanted, after))
	})

	It("take one leaf more when another replica is released, and keep why the PodGroup waits", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		g := providertest.KAI(GinkgoTB(), deployment("grows"))
		released := map[int32]bool{0: true}
		g.Released = func(sg *trellisv1alpha1.ScalingGroup, ordinal int32) bool {
			return !sg.Spec.Multinode || released[ordinal]
		}
		first := accepted(ctx, sent(kai.RenderPodGroup(g), ""))
		apply(ctx, sent(kai.RenderPodGroup(g), ""), "trellis")
		released[1] = true
		grown := apply(ctx, sent(kai.RenderPodGroup(g), ""), "trellis")
		before, after := read[kai.PodGroup](first), read[kai.PodGroup](grown)
		grew := fmt.Sprintf("it grew from\n%s to\n%s", providertest.SketchKAI(before), providertest.SketchKAI(after))
		Expect(after.Spec.SubGroups).To(HaveLen(len(before.Spec.SubGroups)+1), grew)
		Expect(after.Spec.MinSubGroup).To(HaveValue(Equal(*before.Spec.MinSubGroup)), grew)
		waiting := status(ctx, grown, `
  schedulingConditions:
  - {type: UnschedulableOnNodePool, status: "True", nodePool: default, reason: PodSchedulingErrors, message: short, transitionID: "0", lastTransitionTime: "2026-01-01T00:00:00Z",
     reasons: [{reason: PodSchedulingErrors, message: "node-group z1 can allocate only 3 of 4 required pods"}]}`)
		why, said := kai.WhyWaiting(read[kai.PodGroup](waiting))
		Expect(said).To(BeTrue())
		Expect(why).To(And(HaveField("Reason", "PodSchedulingErrors"), HaveField("Message", "KAI: node-group z1 can allocate only 3 of 4 required pods")))
	})
})
