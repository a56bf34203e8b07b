// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// orphan deletes a deployment with --cascade=orphan, and waits until the garbage collector has removed its finalizer.
func (w *world) orphan(name string) {
	w.t.Helper()
	dgd := w.dgd(name)
	if err := w.c.Delete(w.t.Context(), dgd, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		w.t.Fatal(err)
	}
	w.isGone(&nvidiav1alpha1.DynamoGraphDeployment{}, name)
}

// collected waits until the garbage collector watches what a deployment brings. Until then, as when it has just started, it takes --cascade=orphan for
// done when it has seen none of that, and deletes it afterwards.
func (w *world) collected() {
	w.t.Helper()
	w.create(w.graphOf("canary", "zone", services{"None": worker(0, 2, 8, "rack")}))
	w.ready("canary")
	w.delete("canary")
	w.isGone(&trellisv1alpha1.ScalingGroup{}, "canary-none")
	w.isGone(&corev1.Service{}, "canary-none")
}

// adopted says that all of a kind belongs to the deployment.
func adopted[T client.Object](w *world, name string, items []T) {
	w.t.Helper()
	if len(items) == 0 {
		w.t.Error("there is none to adopt")
	}
	dgd := w.dgd(name)
	for _, item := range items {
		if !metav1.IsControlledBy(item, dgd) {
			w.t.Errorf("%T %s belongs to %v", item, item.GetName(), item.GetOwnerReferences())
		}
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, 0, len(items))
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

var _ = Describe("A deployment that was deleted with --cascade=orphan and is created again", func() {
	// Deleted with --cascade=orphan and created again, a deployment adopts the pods that ran meanwhile, is Ready with them, and scales.
	// With another constraint the condition has the command that deletes what cannot be adopted.
	It("adopts the pods that run, and names what it cannot adopt", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "orphaned", racks(2, 8, "a/r0", "a/r1")...)
		w.collected()
		graphs := func(domain string) *nvidiav1alpha1.DynamoGraphDeployment {
			return w.graphOf("g", domain, services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)})
		}
		w.create(graphs("zone"))
		w.ready("g")
		before := w.uids()

		By("the same again")
		w.orphan("g")
		w.create(graphs("zone"))
		w.ready("g")
		Expect(w.uids()).To(Equal(before), "the pods that run are kept")
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, nvidiav1alpha1.ReasonAllReplicasPlaced, "a")
		adopted(w, "g", pointers(list(w, &trellisv1alpha1.ScalingGroupList{}).Items))
		w.until("the Services are adopted", func() error {
			for _, service := range list(w, &corev1.ServiceList{}).Items {
				if !metav1.IsControlledBy(&service, w.dgd("g")) {
					return fmt.Errorf("%s belongs to %v", service.Name, service.OwnerReferences)
				}
			}
			return nil
		})
		w.scale("g", "Worker", 2)
		w.ready("g")

		By("with another constraint")
		w.orphan("g")
		w.create(graphs("rack"))
		w.hasCondition("g", nvidiav1alpha1.ConditionOrphansAdopted, metav1.ConditionFalse, nvidiav1alpha1.ReasonOrphansLeft,
			"its topology constraint differs", "kubectl delete -n orphaned scalinggroups.trellis.dev/g-frontend scalinggroups.trellis.dev/g-worker")
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, nvidiav1alpha1.ReasonCreationRefused, "ScalingGroup g-worker of an earlier deployment")
		before = w.uids()
		for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
			Expect(w.c.Delete(ctx, &sg)).To(Succeed())
		}
		w.until("the pods are new", func() error { return w.allNew(before, 3) })
		w.ready("g")

		By("with the deployment everything goes")
		w.delete("g")
		w.until("nothing is left", func() error {
			if left := list(w, &corev1.PodList{}).Items; len(left) > 0 {
				return fmt.Errorf("%d pods", len(left))
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))

	// Under PodGroup the Workload of the graph is adopted with it; groups belong to the pods that run on.
	It("adopts the pods and the Workload under PodGroup", func(ctx SpecContext) {
		w := podGroups.open(ctx).newWorld(ctx, "orphaned-groups", racks(2, 8, "a/r0")...)
		w.collected()
		dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")})
		w.create(dgd.DeepCopy())
		w.ready("g")
		before, group := w.uids(), w.groups("Worker")[0].Name
		w.orphan("g")
		w.create(dgd)
		w.ready("g")
		Expect(w.uids()).To(Equal(before), "the pods that run are kept")
		adopted(w, "g", pointers(list(w, &schedulingv1beta1.WorkloadList{}).Items))
		groups := w.groups("Worker")
		Expect(groups).To(HaveLen(1))
		Expect(groups[0].Name).To(Equal(group))
		Expect(groups[0].OwnerReferences[0].Name).To(HavePrefix("g-worker-0-"))
	}, SpecTimeout(suite.Timeout()))
})
