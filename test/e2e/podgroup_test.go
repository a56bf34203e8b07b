// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const providerReady = nvidiav1alpha1.ConditionProviderReady

// groups are the pod groups of a component, in name order, without those on their way out.
func (w *world) groups(service string) []schedulingv1beta1.PodGroup {
	w.t.Helper()
	all := list(w, &schedulingv1beta1.PodGroupList{}).Items
	return slices.DeleteFunc(all, func(g schedulingv1beta1.PodGroup) bool {
		return !strings.HasSuffix(g.Labels[render.LabelScalingGroup], "-"+strings.ToLower(service)) || g.DeletionTimestamp != nil
	})
}

var _ = Describe("A graph under PodGroup", func() {
	// What the kube-scheduler is given: a tree for the base gang, groups without a parent for what comes later, a new group for each
	// generation, none left over.
	It("becomes a tree of groups, and a group without a parent for each later replica", func(ctx SpecContext) {
		w := podGroups.open(ctx).newWorld(ctx, "groups", racks(4, 8, "a/r0", "a/r1", "b/r0", "b/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		w.hasCondition("g", providerReady, metav1.ConditionTrue, "ProviderAvailable", "PodGroup, chosen by the operator's flag --provider")
		Expect(w.dgd("g").Status.Provider).To(BeEquivalentTo("PodGroup"))

		By("the base gang is a tree, the largest group first, packed by the levels' labels")
		roots := list(w, &schedulingv1alpha3.CompositePodGroupList{}).Items
		workers, frontends := w.groups("Worker"), w.groups("Frontend")
		Expect(roots).To(HaveLen(1))
		Expect(workers).To(HaveLen(1))
		Expect(frontends).To(HaveLen(1))
		root, replica, single := roots[0], workers[0], frontends[0]
		Expect(root.Spec.SchedulingPolicy.Gang.MinGroupCount).To(BeEquivalentTo(2))
		Expect(root.Spec.SchedulingConstraints.Topology[0].Key).To(Equal(zoneKey))
		Expect(replica.Spec.ParentCompositePodGroupName).To(HaveValue(Equal(root.Name)), "the parent of the worker's group")
		Expect(replica.Spec.SchedulingPolicy.Gang.MinCount).To(BeEquivalentTo(2))
		Expect(replica.Spec.SchedulingConstraints.Topology[0].Key).To(Equal(rackKey))
		Expect(replica.Spec.DisruptionMode.All).NotTo(BeNil())
		Expect(single.Spec.ParentCompositePodGroupName).To(HaveValue(Equal(root.Name)), "the parent of the frontend's group")
		Expect(single.Spec.SchedulingPolicy.Gang.MinCount).To(BeEquivalentTo(1))
		Expect(single.Spec.SchedulingConstraints).To(BeNil())
		Expect(replica.Name > single.Name || single.CreationTimestamp.Before(&replica.CreationTimestamp)).To(BeFalse(),
			"the kube-scheduler would take %s before %s", single.Name, replica.Name)
		for _, g := range []schedulingv1beta1.PodGroup{replica, single} {
			scheduled := meta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
			Expect(scheduled).To(BeTrue(), "the kube-scheduler has not scheduled %s as a group: %+v", g.Name, g.Status)
		}
		Expect(list(w, &schedulingv1beta1.WorkloadList{}).Items).To(HaveLen(1))

		By("a later replica is on its own, and so is one that comes back")
		w.scale("g", "Worker", 2)
		w.ready("g")
		w.replaced("Worker", 4, func() { w.deletePod("g-worker-0-1"); w.deletePod("g-worker-1-1") })
		w.ready("g")
		w.until("only the groups of running pods are left", func() error {
			if n := len(w.groups("Worker")); n != 2 {
				return fmt.Errorf("%d groups", n)
			}
			return nil
		})
		for _, g := range w.groups("Worker") {
			Expect(g.Name).NotTo(Equal(replica.Name))
			Expect(g.Spec.ParentCompositePodGroupName).To(BeNil(), "the parent of %s", g.Name)
		}
		Expect(w.all()).To(w.bePlacedInOne("zone"))

		By("with the deployment everything goes")
		Expect(w.c.Delete(ctx, w.dgd("g"))).To(Succeed())
		w.until("nothing is left", func() error {
			n := len(list(w, &schedulingv1beta1.PodGroupList{}).Items) + len(list(w, &schedulingv1alpha3.CompositePodGroupList{}).Items) +
				len(list(w, &schedulingv1beta1.WorkloadList{}).Items) + len(w.all())
			if n > 0 {
				return fmt.Errorf("%d objects", n)
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))

	// A gang that the kube-scheduler does not take is explained from both sides, and not one pod of it is bound.
	It("is explained from both sides when the kube-scheduler refuses it, and no pod is bound", func(ctx SpecContext) {
		w := podGroups.open(ctx).newWorld(ctx, "refuses", racks(2, 8, "a/r0")...)
		w.outOfSight("a-r0-0")
		w.create(w.graphOf("g", "zone", services{"Worker": withPodSpec(worker(1, 2, 8, "rack"), disk(true)), "Frontend": frontend(1)}))
		w.waitsFor("SchedulerRefuses", "by Trellis' count it has capacity in a/r0", "the kube-scheduler reports: pod group is unschedulable")
		for _, pod := range w.all() {
			Expect(pod.Spec.NodeName).To(BeEmpty(), "%s is bound without its gang", pod.Name)
		}
		w.hasEvent("Pod", "g-worker-0-0", "SchedulerRefuses", "the kube-scheduler reports")
		w.inSight("a-r0-0")
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))

	// What one tree cannot hold waits, and is reported.
	It("waits while its services have different priorities, and says so", func(ctx SpecContext) {
		w := podGroups.open(ctx).newWorld(ctx, "priorities", racks(2, 8, "a/r0")...)
		dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)})
		dgd.Spec.Services["Frontend"].ExtraPodSpec.PodSpec = &corev1.PodSpec{PriorityClassName: "system-cluster-critical"}
		w.create(dgd)
		w.hasCondition("g", providerReady, metav1.ConditionFalse, "ProviderUnsupported", "one priorityClassName", `component Frontend has "system-cluster-critical", component Worker has ""`)
		w.waitsFor("ProviderNotReady", "one priorityClassName")
		w.nothingReleased("Worker", 2)

		By("made equal by the user, it continues by itself")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Frontend":{"extraPodSpec":{"priorityClassName":null}}}}}`))
		Expect(w.c.Patch(ctx, w.dgd("g"), patch)).To(Succeed())
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))
})
