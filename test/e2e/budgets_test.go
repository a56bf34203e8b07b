// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// budget is a PodDisruptionBudget over some pods of graph g, and what follows from its numbers while all of them are healthy.
type budget struct {
	service                      string // "": all pods of the graph
	maxUnavailable, minAvailable string
	expected, healthy, allowed   int32
}

// Two multinode replicas of 4 pods each, 4 single-node pods that are packed together, 3 that are not packed.
var budgets = map[string]budget{
	"multinode-max-percent": {service: "Worker", maxUnavailable: "25%", expected: 8, healthy: 6, allowed: 2},
	"multinode-min-percent": {service: "Worker", minAvailable: "50%", expected: 8, healthy: 4, allowed: 4},
	"multinode-rounded-up":  {service: "Worker", minAvailable: "30%", expected: 8, healthy: 3, allowed: 5},
	"multinode-max-number":  {service: "Worker", maxUnavailable: "3", expected: 8, healthy: 5, allowed: 3},
	"grouped-max-percent":   {service: "Prefill", maxUnavailable: "25%", expected: 4, healthy: 3, allowed: 1},
	"grouped-min-percent":   {service: "Prefill", minAvailable: "50%", expected: 4, healthy: 2, allowed: 2},
	"grouped-max-number":    {service: "Prefill", maxUnavailable: "1", expected: 4, healthy: 3, allowed: 1},
	"free-max-percent":      {service: "Frontend", maxUnavailable: "34%", expected: 3, healthy: 1, allowed: 2},
	"graph-max-percent":     {maxUnavailable: "20%", expected: 15, healthy: 12, allowed: 3},
}

func (b budget) object(w *world, name string) *policyv1.PodDisruptionBudget {
	pods := map[string]string{render.LabelGraph: "g"}
	if b.service != "" {
		pods[render.LabelComponent] = b.service
	}
	out := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: pods}},
	}
	if b.maxUnavailable != "" {
		out.Spec.MaxUnavailable = ptr.To(intstr.Parse(b.maxUnavailable))
	} else {
		out.Spec.MinAvailable = ptr.To(intstr.Parse(b.minAvailable))
	}
	return out
}

// budgetsAreCounted waits until the disruption controller counts all budgets. It learns of new kinds every 30 seconds, and counts a budget that
// it failed on again when that or a pod of it changes.
func (w *world) budgetsAreCounted() {
	w.t.Helper()
	last, touched := "", 0
	err := wait.PollUntilContextTimeout(w.t.Context(), 2*time.Second, suite.Patience(), true, func(ctx context.Context) (bool, error) {
		last, touched = "", touched+1
		all := list(w, &policyv1.PodDisruptionBudgetList{}).Items
		for i := range all {
			c := meta.FindStatusCondition(all[i].Status.Conditions, policyv1.DisruptionAllowedCondition)
			if c != nil && c.Reason != policyv1.SyncFailedReason {
				continue
			}
			last = fmt.Sprintf("%s: %+v", all[i].Name, c)
			touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, touched)
			if err := w.c.Patch(ctx, &all[i], client.RawPatch(types.MergePatchType, touch)); err != nil {
				return false, err
			}
		}
		return last == "", nil
	})
	if err != nil {
		w.t.Fatalf("the disruption controller does not count budget %s: %v", last, err)
	}
}

// budgetSays waits until the disruption controller has counted so.
func (w *world) budgetSays(name string, expected, healthy, allowed int32) {
	w.t.Helper()
	w.until(fmt.Sprintf("budget %s expects %d pods, %d of them healthy, and allows %d disruptions", name, expected, healthy, allowed), func() error {
		got := get(w, &policyv1.PodDisruptionBudget{}, w.name, name)
		if s := got.Status; s.ObservedGeneration != got.Generation || s.ExpectedPods != expected || s.DesiredHealthy != healthy || s.DisruptionsAllowed != allowed {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
}

func (w *world) evict(pod *corev1.Pod) error {
	return w.c.SubResource("eviction").Create(w.t.Context(), pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
}

var _ = Describe("A PodDisruptionBudget", func() {
	// Disruption budgets in percentages and with maxUnavailable count a graph's pods by the scale of their scaling groups; a drain goes as far
	// as they allow.
	It("counts the pods of a graph by the scale of its groups, and a drain goes as far as it allows", func(ctx SpecContext) {
		w := newWorld(ctx, "budgets", racks(4, 8, "a/r0", "a/r1", "a/r2")...)
		g := w.graphOf("g", "zone", services{"Worker": worker(2, 4, 8, "rack"), "Prefill": worker(4, 1, 8, "rack"), "Frontend": frontend(3)})
		g.Annotations = map[string]string{rollout.AnnotationMoves: "Never"} // otherwise replicas move first
		w.create(g)
		w.ready("g")
		for name, b := range budgets {
			w.create(b.object(w, name))
		}
		w.budgetsAreCounted()
		for name, b := range budgets {
			w.budgetSays(name, b.expected, b.healthy, b.allowed)
		}
		for name, b := range budgets {
			Expect(w.c.Delete(ctx, b.object(w, name))).To(Succeed())
		}

		By("a drain takes a pod of a replica down, and with it the replica, which has no capacity while its host is cordoned")
		b := budget{service: "Worker", maxUnavailable: "25%"}
		w.create(b.object(w, "worker"))
		w.budgetSays("worker", 8, 6, 2)
		first, second := w.replicasOf("Worker")[0], w.replicasOf("Worker")[1]
		host := first[1].Spec.NodeName
		w.mustKubectl("drain", host, "--delete-emptydir-data", "--timeout=60s", "--pod-selector="+render.LabelComponent+"=Worker")
		w.until("the other pods of the replica are gone", func() error {
			for _, pod := range w.replicasOf("Worker")[0] {
				if pod.Spec.NodeName != "" {
					return fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
				}
			}
			return nil
		})
		w.budgetSays("worker", 8, 6, 0)

		By("the other replica stays")
		Expect(apierrors.ReasonForError(w.evict(&second[0]))).To(Equal(metav1.StatusReasonTooManyRequests), "evicting %s", second[0].Name)
		w.mustKubectl("uncordon", host)
		w.ready("g")
		w.budgetSays("worker", 8, 6, 2)

		By("scaled in, the budget counts the pods of one replica")
		w.scale("g", "Worker", 1)
		w.budgetSays("worker", 4, 3, 1)
		w.until("the group counts them", func() error {
			if got := get(w, &trellisv1alpha1.ScalingGroup{}, w.name, "g-worker").Status.Pods; got != 4 {
				return fmt.Errorf("status.pods is %d, want 4", got)
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))
})
