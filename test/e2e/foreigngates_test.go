// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const quotaGate = "example.com/quota"

// heldBy has pods of a component carry a scheduling gate of another controller.
func heldBy(gate string) *corev1.PodSpec {
	return &corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}}}
}

// ungate removes the gate of another controller from a pod, as that controller would: with a node selector that it adds.
func (w *world) ungate(name, gate string, selector map[string]string) {
	w.t.Helper()
	w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod := get(w, &corev1.Pod{}, w.name, name)
		pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		for key, value := range selector {
			pod.Spec.NodeSelector[key] = value
		}
		return w.c.Update(w.t.Context(), pod)
	}))
}

// waitsForAdmission waits until a graph says that it does, and which pod is held.
func (w *world) waitsForAdmission(name, pod string) {
	w.t.Helper()
	w.waitsForAdmissionBy(name, quotaGate, pod)
}

// waitsForAdmissionBy is the same for any gate.
func (w *world) waitsForAdmissionBy(name, gate string, parts ...string) {
	w.t.Helper()
	w.hasCondition(name, placed, metav1.ConditionFalse, gang.CodeWaitingForAdmission, append(parts, fmt.Sprintf("remove the scheduling gate %q", gate))...)
}

var _ = Describe("A graph whose pods another controller holds", func() {
	// The gates of others come first: nothing is planned or reserved before the last of them is gone, what was added to the pods holds, and a gang that
	// loses a pod waits for admission again, as a unit.
	It("is placed when all of a gang is admitted, where that allows it", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "foreign-gates", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		held := worker(1, 2, 8, "rack")
		held.ExtraPodSpec.PodSpec = heldBy(quotaGate)
		w.create(w.graphOf("g", "zone", services{"Worker": held}))
		w.waitsForAdmission("g", "g-worker-0-0")
		w.hasEventOf(corev1.EventTypeNormal, "Pod", "g-worker-0-0", gang.CodeWaitingForAdmission, quotaGate)

		w.create(w.graphOf("later", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("later")
		Expect(podsOf(w, "later")).To(w.bePlacedIn("rack", "a/r0"), "no capacity is kept for what is not admitted")

		w.ungate("g-worker-0-0", quotaGate, map[string]string{rackKey: "r2"})
		w.waitsForAdmission("g", "g-worker-0-1")
		Expect(released(podsOf(w, "g"))).To(BeEmpty(), "a part of the gang is admitted")
		w.ungate("g-worker-0-1", quotaGate, map[string]string{rackKey: "r2"})
		w.ready("g")
		Expect(podsOf(w, "g")).To(w.bePlacedIn("rack", "a/r2"), "where the node selector allows it")

		before := uidsOf(podsOf(w, "g"))
		w.remove(get(w, &corev1.Pod{}, w.name, "g-worker-0-1"))
		w.until("both pods are new and held", func() error {
			pods := podsOf(w, "g")
			for i := range pods {
				if slices.Contains(before, pods[i].UID) || len(render.ForeignGates(&pods[i])) == 0 {
					return fmt.Errorf("pod %s of %v", pods[i].Name, pods[i].CreationTimestamp)
				}
			}
			if len(pods) != 2 {
				return fmt.Errorf("%d pods", len(pods))
			}
			return nil
		})
		w.waitsForAdmission("g", "g-worker-0-0")
		w.create(w.graphOf("third", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("third")
	}, SpecTimeout(suite.Timeout()))

	// What is added with the admission may rule out the domain that the graph is in: the replica waits there, and the refusal names the reason.
	It("waits, with the reason, when it is admitted for another domain than its graph is in", func(ctx SpecContext) {
		w := newWorld(ctx, "foreign-domain", racks(1, 8, "a/r0", "a/r1", "b/r0")...)
		held := worker(2, 1, 8, "")
		held.ExtraPodSpec.PodSpec = heldBy(quotaGate)
		w.create(w.graphOf("g", "zone", services{"Worker": held}))
		w.waitsForAdmission("g", "g-worker-0")
		w.ungate("g-worker-0", quotaGate, map[string]string{zoneKey: "a"})
		w.until("the first replica is bound", func() error {
			if pod := get(w, &corev1.Pod{}, w.name, "g-worker-0"); pod.Spec.NodeName == "" {
				return fmt.Errorf("gates %v", pod.Spec.SchedulingGates)
			}
			return nil
		})
		w.waitsForAdmission("g", "g-worker-1")
		w.ungate("g-worker-1", quotaGate, map[string]string{zoneKey: "b"})
		w.hasCondition("g", placed, metav1.ConditionFalse, "InsufficientCapacity", "b has capacity, but running pods anchor the graph in a")
		said, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(said, "Worker-1", "node selector mismatch", "the graph is in a")
	}, SpecTimeout(suite.Timeout()))
})

func uidsOf(pods []corev1.Pod) (uids []types.UID) {
	for i := range pods {
		uids = append(uids, pods[i].UID)
	}
	return uids
}
