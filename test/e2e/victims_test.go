// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// staying makes a pod stay on its node although it is deleted, until the test is over.
func (w *world) staying(pod *corev1.Pod) {
	w.t.Helper()
	change := func(finalizers ...string) error {
		now := pod.DeepCopy()
		now.Finalizers = finalizers
		return w.c.Patch(w.t.Context(), now, client.MergeFrom(pod))
	}
	if err := change("e2e.trellis.dev/stays"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.leaves(pod) })
}

// leaves lets a pod go that was made to stay.
func (w *world) leaves(pod *corev1.Pod) {
	w.t.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := w.c.Patch(context.WithoutCancel(w.t.Context()), pod.DeepCopy(), raw); client.IgnoreNotFound(err) != nil {
		w.t.Error(err)
	}
}

var _ = Describe("A preempted pod that does not leave", func() {
	// A gang preempts a pod that does not leave: a finalizer keeps it. Placed names the pod and its node. The gang goes elsewhere: when the time of
	// the pod is over, to a host where others leave, and before that to a host that becomes free.
	DescribeTable("is named, and the gang goes elsewhere", func(ctx SpecContext, name string, free bool) {
		w := newWorld(ctx, name, racks(1, 8, "a/r0", "a/r1")...)
		w.staying(w.occupy("victim", "a-r0-0", 8))
		other := w.occupy("other", "a-r1-0", 8)
		urgent := w.graphOf("urgent", "", services{"Worker": worker(1, 1, 8, "rack")})
		urgent.Spec.PriorityClassName = w.priorityClass(1000)
		w.create(urgent)
		w.hasCondition("urgent", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, gang.CodePreempting,
			"waits for pod "+w.name+"/victim to leave node "+w.node("a-r0-0"))
		said, _ := w.kubectlTrellis(0, "explain", "dgd/urgent")
		w.says(said, gang.CodePreempting, w.name+"/victim")
		why := "victim has not left node " + w.node("a-r0-0")
		if free {
			why = "free capacity"
			Expect(w.c.Delete(ctx, other)).To(Succeed())
		}
		w.hasEvent("DynamoGraphDeployment", "urgent", gang.CodeRequeued, why)
		w.ready("urgent")
		Expect(podsOf(w, "urgent")).To(w.bePlacedIn("rack", "a/r1"))
	},
		Entry("when nothing else is free", SpecTimeout(suite.Timeout()), "nothing-else-is-free", false),
		Entry("when another host is freed", SpecTimeout(suite.Timeout()), "another-host-is-freed", true),
	)
})
