// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func gpuList(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

var _ = Describe("Placement", func() {
	// The first example of the contract: one constraint for the whole deployment, which every component inherits.
	It("packs a whole deployment into one zone by one constraint", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "deployment-level", racks(2, 1, "a/r0", "b/r0", "b/r1")...)
		w.create(w.graphOf("my-llm", "zone", services{"VllmWorker": worker(4, 1, 1, ""), "Frontend": frontend(2)}))
		w.ready("my-llm")
		Expect(w.all()).To(w.bePlacedIn("zone", "b"), "only zone b holds all of it")
		Expect(w.all()).To(HaveLen(6))
		w.hasCondition("my-llm", nvidiav1alpha1.ConditionTopologyLevelsAvailable, metav1.ConditionTrue, "AllTopologyLevelsAvailable",
			"All required topology levels are available in the cluster topology")
		w.hasCondition("my-llm", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced")
		dgd := w.dgd("my-llm")
		Expect(dgd.Status.Placement).To(HaveField("Domain", "b"))
		s := dgd.Status.Services["VllmWorker"]
		Expect(s.ComponentKind).To(BeEquivalentTo("ScalingGroup"))
		Expect(s.ReadyReplicas).To(HaveValue(BeEquivalentTo(4)))
		Expect(s.Placements).To(HaveLen(4))
		get(w, &corev1.Service{}, w.name, "my-llm-frontend")
	}, SpecTimeout(suite.Timeout()))

	// The second example: only the multinode worker is packed, each replica in a rack of its own; the frontend is free and never gated.
	It("packs each replica of a service into a rack, and leaves the frontend free", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "service-level", racks(4, 8, "a/r0", "a/r1", "b/r0")...)
		w.create(w.graphOf("my-llm", "", services{"VllmWorker": worker(2, 4, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("my-llm")
		for ordinal, pods := range w.replicasOf("VllmWorker") {
			Expect(pods).To(And(HaveLen(4), w.bePlacedInOne("rack")), "replica %d", ordinal)
		}
		leader := get(w, &corev1.Pod{}, w.name, "my-llm-vllmworker-1-0")
		Expect(leader.Spec.Hostname).To(Equal(leader.Name))
		Expect(leader.Spec.Subdomain).NotTo(BeEmpty())
		Expect(leader.Labels).To(HaveKeyWithValue("nvidia.com/dynamo-graph-deployment-name", "my-llm"))
		for _, pods := range w.replicasOf("Frontend") {
			Expect(pods[0].Spec.NodeSelector).To(BeEmpty(), "the frontend has no constraint")
		}
	}, SpecTimeout(suite.Timeout()))

	// The third example: the deployment in one zone, each replica of the worker in one rack of it.
	It("packs the deployment into one zone, and each replica into a rack of it", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "mixed", racks(4, 8, "a/r0", "b/r0", "b/r1")...)
		w.create(w.graphOf("my-llm", "zone", services{"VllmWorker": worker(2, 4, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("my-llm")
		Expect(w.all()).To(w.bePlacedIn("zone", "b"), "only zone b has two racks")
		var where []string
		for _, pods := range w.replicasOf("VllmWorker") {
			where = append(where, w.domains("rack", pods...)...)
		}
		Expect(where).To(ConsistOf("b/r0", "b/r1"), "the racks of the two replicas")
	}, SpecTimeout(suite.Timeout()))

	// Rack values repeat between zones; a gang must never be spread over two racks of one name.
	It("takes racks of one name in several zones for several racks", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "equal-names", racks(2, 8, "a/r0", "b/r0", "c/r0")...)
		w.create(w.graphOf("twins", "", services{"Worker": worker(3, 2, 8, "rack")}))
		w.ready("twins")
		for ordinal, pods := range w.replicasOf("Worker") {
			Expect(pods).To(w.bePlacedInOne("rack"), "replica %d", ordinal)
		}
		w.create(w.graphOf("too-big", "", services{"Worker": worker(1, 4, 1, "rack")}))
		w.hasCondition("too-big", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "4 pods", "in one rack", "of 4")
	}, SpecTimeout(suite.Timeout()))

	// All or nothing: no rack has four free hosts, so nothing of the gang starts, and the deployment reports which rack came closest. It starts
	// by itself once there is capacity, in each of the ways capacity can come.
	type way struct {
		name string
		do   func(w *world, blocker *corev1.Pod)
	}
	DescribeTable("starts a gang whole or not at all, and by itself when there is capacity because", suite.Core, func(ctx SpecContext, capacity way) {
		w := newWorld(ctx, "waits-"+capacity.name, racks(4, 8, "a/r0", "a/r1")...)
		blocker := w.occupy("other", "a-r0-1", 1)
		node := get(w, &corev1.Node{}, "", w.node("a-r1-3"))
		before := node.DeepCopy()
		node.Spec.Unschedulable = true
		Expect(w.c.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 4, 8, "rack")}))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity",
			"needs 4 pods x 8 nvidia.com/gpu in one rack", "3 of 4", "a/r")
		w.nothingReleased("Worker", 4)
		w.hasEvent("DynamoGraphDeployment", "g", "InsufficientCapacity", "3 of 4")
		w.hasEvent("Pod", "g-worker-0-0", "InsufficientCapacity", "3 of 4")
		capacity.do(w, blocker)
		w.ready("g")
		Expect(w.all()).To(w.bePlacedInOne("rack"))
	}, suite.Entries(map[string]way{
		"a pod ends": {"pod-ends", func(w *world, blocker *corev1.Pod) { w.remove(blocker) }},
		"a host is uncordoned": {"uncordon", func(w *world, _ *corev1.Pod) {
			node := get(w, &corev1.Node{}, "", w.node("a-r1-3"))
			w.must(w.c.Patch(w.t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":null}}`))))
		}},
		"a node is added": {"node-added", func(w *world, _ *corev1.Pod) { w.addHosts(host{zone: "a", rack: "r0", name: "a-r0-new", gpus: 8}) }},
	}, SpecTimeout(suite.Timeout())))

	// Enough GPUs in sum are not enough: zone a has them scattered over racks, so the graph goes to zone b.
	It("does not choose a zone whose free GPUs are scattered over racks", func(ctx SpecContext) {
		w := newWorld(ctx, "scattered", append(racks(1, 8, "a/r0", "a/r1", "a/r2", "a/r3"), racks(2, 8, "b/r0")...)...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("rack", "b/r0"))
	}, SpecTimeout(suite.Timeout()))

	// Look ahead: zone a holds the first replica of everything, tighter even, but only zone b holds all of it.
	It("chooses the zone that holds all replicas, though another is tighter for the first", func(ctx SpecContext) {
		w := newWorld(ctx, "look-ahead", racks(2, 8, "a/r0", "b/r0", "b/r1", "b/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack")}))
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("zone", "b"))
	}, SpecTimeout(suite.Timeout()))

	// 4+4+8 GPUs on two hosts of 8: a scheduler that spreads the small ones would never fit the large one.
	It("has pods of several sizes bound at once", func(ctx SpecContext) {
		w := newWorld(ctx, "mixed-shapes", racks(2, 8, "a/r0")...)
		w.create(w.graphOf("g", "rack", services{"Small": worker(2, 1, 4, ""), "Large": worker(1, 1, 8, "")}))
		w.ready("g")
		for _, pod := range w.all() {
			for _, cond := range pod.Status.Conditions {
				if cond.Type == corev1.PodScheduled {
					Expect(cond.Status).To(Equal(corev1.ConditionTrue), "pod %s: %s", pod.Name, cond.Message)
				}
			}
		}
		w.noEvent("Requeued")
	}, SpecTimeout(suite.Timeout()))

	// Only the zone is required, but the replica was planned into one rack of it, and there it goes: the scheduler, left alone, would spread
	// it over the emptiest hosts of the zone.
	It("has a replica bound in the rack that it was planned into, though only the zone is required", func(ctx SpecContext) {
		w := newWorld(ctx, "tight", append(racks(4, 4, "a/r0"), racks(3, 4, "a/r1", "a/r2")...)...)
		w.occupy("other", "a-r1-0", 2)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 3, 2, "")}))
		w.ready("g")
		Expect(w.all()).To(w.bePlacedInOne("rack"))
	}, SpecTimeout(suite.Timeout()))

	// A single-node component with a rack of its own has all its replicas in one rack.
	It("keeps all replicas of a single-node service in one rack", func(ctx SpecContext) {
		w := newWorld(ctx, "single-node", racks(2, 4, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Decode": worker(8, 1, 1, "rack"), "Prefill": worker(4, 1, 1, "rack")}))
		w.ready("g")
		for _, service := range []string{"Decode", "Prefill"} {
			var pods []corev1.Pod
			for _, replica := range w.replicasOf(service) {
				pods = append(pods, replica...)
			}
			Expect(pods).To(w.bePlacedInOne("rack"))
		}
	}, SpecTimeout(suite.Timeout()))
})

func (w *world) noEvent(reason string) {
	w.t.Helper()
	list := &corev1.EventList{}
	if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			w.t.Errorf("event %s", fmt.Sprint(list.Items[i].Message))
		}
	}
}
