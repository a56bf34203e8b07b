// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func ofCPU(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

var _ = Describe("A pod that is resized in place", func() {
	// A pod of others, with resources of its own, is resized in place to less. What it gives up is free when its kubelet has carried that out, as
	// the kube-scheduler has it, and then a gang that waits is placed. It is not released before, to be refused and requeued.
	It("gives up capacity to a gang that waits once its kubelet has resized it", func(ctx SpecContext) {
		w := newWorld(ctx, "resized", racks(1, 8, "a/r0")...)
		node := get(w, &corev1.Node{}, "", w.node("a-r0-0"))
		declares := node.DeepCopy()
		declares.Status.DeclaredFeatures = []string{"InPlacePodLevelResourcesVerticalScaling"}
		Expect(w.c.Status().Patch(ctx, declares, client.MergeFrom(node))).To(Succeed())
		whole := node.Status.Allocatable[corev1.ResourceCPU]
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "other"}, Spec: corev1.PodSpec{
			NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "example.com/other:1"}},
			Resources: &corev1.ResourceRequirements{Requests: ofCPU(whole.String()), Limits: ofCPU(whole.String())},
		}}
		w.create(other)
		kubelet := func(allocated string) {
			GinkgoHelper()
			now := get(w, &corev1.Pod{}, w.name, "other")
			said := now.DeepCopy()
			said.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{} // a kubelet that can resize reports them
			said.Status.AllocatedResources = ofCPU(allocated)
			said.Status.Resources = &corev1.ResourceRequirements{Requests: ofCPU(allocated), Limits: ofCPU(allocated)}
			Expect(w.c.Status().Patch(ctx, said, client.MergeFrom(now))).To(Succeed())
		}
		w.until("the other pod runs", func() error {
			if phase := get(w, &corev1.Pod{}, w.name, "other").Status.Phase; phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", phase)
			}
			return nil
		})
		kubelet(whole.String())

		wants := worker(1, 1, 8, "rack")
		wants.Resources.Requests = &nvidiav1alpha1.ResourceItem{CPU: "1"}
		w.create(w.graphOf("g", "", services{"Worker": wants}))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "cpu")

		now := get(w, &corev1.Pod{}, w.name, "other")
		smaller := now.DeepCopy()
		smaller.Spec.Resources.Requests, smaller.Spec.Resources.Limits = ofCPU("1"), ofCPU("1")
		Expect(w.c.SubResource("resize").Patch(ctx, smaller, client.MergeFrom(now))).To(Succeed())
		w.create(w.graphOf("late", "", services{"Worker": wants})) // decided when the resize has been seen
		w.hasCondition("late", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "cpu")
		w.nothingReleased("Worker", 2)
		kubelet("1")
		w.ready("g")
		events := list(w, &eventsv1.EventList{})
		for i := range events.Items {
			if e := &events.Items[i]; strings.HasPrefix(e.Regarding.Name, "g") {
				Expect(e.Reason).NotTo(Equal(gang.CodeRequeued), "it was released too early: %s", e.Note)
			}
		}
	}, SpecTimeout(suite.Timeout()))
})
