// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/kubecontrollers"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// budget of the group; nil: there is none.
func (s *server) budget() *policyv1.PodDisruptionBudget {
	GinkgoHelper()
	budget := &policyv1.PodDisruptionBudget{}
	err := s.r.Live.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "g-worker-replicas"}, budget)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return budget
}

// withoutStatus leaves out the status of a budget, and traces of its writes: the disruption controller may write it at any time.
func withoutStatus(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	budget.Status, budget.ResourceVersion = policyv1.PodDisruptionBudgetStatus{}, ""
	budget.ManagedFields = slices.DeleteFunc(budget.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" })
	return budget
}

// leaves expects that evictions leave so many pods of the group; 0: there is no budget.
func (s *server) leaves(pods int, why string) {
	GinkgoHelper()
	s.settle()
	budget := s.budget()
	if pods == 0 {
		Expect(budget).To(BeNil(), why)
		return
	}
	Expect(budget).NotTo(BeNil(), why)
	Expect(budget.Spec.MinAvailable).To(HaveValue(Equal(intstr.FromInt(pods))), why)
}

// requestEviction asks the API server for the eviction of a pod. No webhook is asked.
func (s *server) requestEviction(name string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	return s.c.SubResource("eviction").Create(s.ctx, pod, &policyv1.Eviction{})
}

var _ = Describe("The disruption budget of a scaling group", func() {
	serving := func(ctx SpecContext, replicas, pods int32) *server {
		s := newServer(ctx)
		Expect(s.c.Create(ctx, s.startable(group(replicas, pods)))).To(Succeed())
		s.leaves(0, "nothing serves yet")
		for ordinal := range int(replicas) {
			s.run(ordinal)
		}
		return s
	}

	It("lets the pods of one replica be evicted, and no others until it serves again", func(ctx SpecContext) {
		kubecontrollers.Run(shared, "disruption-controller")
		s := serving(ctx, 3, 2)
		s.leaves(4, "3 replicas of 2 pods")
		Expect(metav1.IsControlledBy(s.budget(), s.group())).To(BeTrue())
		Expect(s.budget().Spec.UnhealthyPodEvictionPolicy).To(HaveValue(Equal(policyv1.AlwaysAllow)))
		allows := func(n int32) {
			GinkgoHelper()
			Eventually(ctx, func() error {
				if got := s.budget().Status; got.DisruptionsAllowed != n {
					return fmt.Errorf("it is %+v", got)
				}
				return nil
			}).WithTimeout(suite.Patience()).Should(Succeed(), "evictions that are allowed")
		}
		allows(2)
		Expect(s.requestEviction("g-worker-1-0")).To(Succeed())
		Expect(s.requestEviction("g-worker-1-1")).To(Succeed())
		Expect(s.requestEviction("g-worker-0-0")).To(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"))
		s.leaves(4, "a replica is recreated")
		allows(0)
		s.setReady("g-worker-0-1", false)
		Expect(s.requestEviction("g-worker-0-1")).To(Succeed(), "a pod that is not Ready is kept")
		s.settle()
		for ordinal := range 2 {
			s.run(ordinal)
		}
		allows(2)
	}, SpecTimeout(suite.Timeout()))

	It("follows the replicas that are wanted and how many may be missing, and is removed with moves", func(ctx SpecContext) {
		s := serving(ctx, 3, 2)
		s.leaves(4, "3 replicas of 2 pods")
		made := withoutStatus(s.budget())
		s.settle()
		Expect(withoutStatus(s.budget())).To(Equal(made), "it is written again")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) {
			spec.Rollout = &trellisv1alpha1.RolloutStrategy{MaxUnavailable: intstr.FromInt32(2), MaxSurge: intstr.FromInt32(0)}
		})
		s.leaves(2, "2 may be missing")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Replicas = 2 })
		s.leaves(0, "all may be missing")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Rollout = nil })
		s.leaves(2, "2 replicas of 2 pods")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Moves = trellisv1alpha1.MovesNever })
		s.leaves(0, "its replicas do not move")
	}, SpecTimeout(suite.Timeout()))

	It("gives way to a budget of another owner, and leaves that alone", func(ctx SpecContext) {
		s := serving(ctx, 2, 2)
		s.leaves(2, "2 replicas of 2 pods")
		other := func(name string, selector map[string]string) *policyv1.PodDisruptionBudget {
			return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector},
			}}
		}
		Expect(s.c.Create(ctx, other("elsewhere", map[string]string{"app": "other"}))).To(Succeed())
		s.leaves(2, "a budget of other pods")
		mine := other("mine", map[string]string{render.LabelReplica: "1"})
		Expect(s.c.Create(ctx, mine)).To(Succeed())
		Expect(s.r.budgets().concerned(ctx, mine)).To(ConsistOf(s.request()), "the groups that are reconciled")
		s.leaves(0, "a budget of one of the replicas")
		Expect(s.c.Delete(ctx, mine)).To(Succeed())
		s.leaves(2, "that one is deleted")

		By("a budget that is changed, or has lost its owner, is as it should be again")
		changed := s.budget()
		changed.Spec.MinAvailable, changed.Spec.MaxUnavailable = nil, ptr.To(intstr.FromInt32(0))
		Expect(s.c.Update(ctx, changed)).To(Succeed())
		Expect(s.r.budgets().concerned(ctx, changed)).To(ConsistOf(s.request()), "the groups that are reconciled")
		s.leaves(2, "it was changed")
		Expect(s.budget().Spec.MaxUnavailable).To(BeNil())
		changed = s.budget()
		changed.OwnerReferences = nil
		Expect(s.c.Update(ctx, changed)).To(Succeed())
		s.leaves(2, "it has lost its owner")
		Expect(metav1.IsControlledBy(s.budget(), s.group())).To(BeTrue())

		By("one of the same name that is not Trellis's stays")
		Expect(s.c.Delete(ctx, s.budget())).To(Succeed())
		taken := other("g-worker-replicas", map[string]string{"app": "other"})
		Expect(s.c.Create(ctx, taken)).To(Succeed())
		s.settle()
		Expect(s.budget().Spec).To(Equal(taken.Spec))
		Expect(s.c.Delete(ctx, taken, client.GracePeriodSeconds(0))).To(Succeed())
	}, SpecTimeout(suite.Timeout()))
})
