// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A start under KAI", labelKAI, func() {
	It("refuses nothing, and gated pods are of no PodGroup, so that KAI says nothing of them", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "starts", racks(2, 8, "a/r0")...)
		w.deploy(specs.KAI.Name, "zone", "", components{"Worker": worker(2, 2, 8, "rack")})
		w.in("Worker", 0, 2, "a/r0")
		w.held("Worker", 1, 2)
		for _, pod := range w.replica("Worker", 1) {
			Expect(pod.Annotations).NotTo(HaveKey(kai.AnnotationPodGroup), "%s is gated and a member", pod.Name)
			Expect(pod.Labels).NotTo(HaveKey(kai.LabelSubGroup), "%s is gated and a member", pod.Name)
			Expect(pod.Status.Conditions).NotTo(ContainElement(HaveField("Reason", corev1.PodReasonUnschedulable)), "%s is gated", pod.Name)
		}
		w.is(placed, no, "InsufficientCapacity")
		w.addHosts(racks(2, 8, "a/r1")...)
		w.in("Worker", 1, 2, "a/r1")
		w.serves()
		events := &eventsv1.EventList{}
		Expect(typed.List(ctx, events, ctrlclient.InNamespace(w.ns))).To(Succeed())
		Expect(events.Items).NotTo(ContainElement(And(HaveField("Regarding.Name", w.name), HaveField("Reason", "SchedulerRefuses"))))

		By("a replica is lost and finds no capacity: it is listed no longer, or KAI would call all of the graph stale")
		w.cordon("a-r0-0")
		w.cordon("a-r0-1")
		w.free(&w.replica("Worker", 0)[0])
		w.held("Worker", 0, 2)
		w.tree(`
g needs 1 in one zone
  g-worker-all needs 1
    g-worker-1 pods 2 in one rack`)
	})
})
