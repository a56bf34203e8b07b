// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A place that a group has asked for", func() {
	DescribeTable("is given up when the group is", func(ctx SpecContext, finalizers []string) {
		s := newServer(ctx)
		s.r.Asks = scheduler.NewAsks(func(types.NamespacedName) {})
		sg := s.startable(group(1, 1))
		sg.Finalizers = finalizers
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		asksAgain := func(sg *trellisv1alpha1.ScalingGroup) bool {
			return s.r.Asks.Ask(sg, []scheduler.Want{{Pods: func() []*corev1.Pod { return nil }}}, nil)[0].New
		}
		Expect(asksAgain(sg)).To(BeTrue())
		Expect(asksAgain(sg)).To(BeFalse(), "it was asked for already")

		Expect(s.c.Delete(ctx, sg)).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		Expect(asksAgain(sg)).To(BeTrue(), "the place was not given up")

		if len(finalizers) > 0 {
			live := s.group()
			live.Finalizers = nil
			Expect(s.c.Update(ctx, live)).To(Succeed())
		}
	},
		Entry("gone", SpecTimeout(suite.Timeout()), nil),
		Entry("being deleted", SpecTimeout(suite.Timeout()), []string{"example.com/wait"}),
	)
})

// createInPlace creates the pod of the first replica of a group on the one node, as recorded at an attempt.
func (s *server) createInPlace(sg *trellisv1alpha1.ScalingGroup, attempt int32) (bool, *corev1.Pod, error) {
	GinkgoHelper()
	pod := render.NewBuilder(sg).PodOfAttempt(0, 0, attempt)
	one := &planned{
		pods: map[int32]*corev1.Pod{0: pod}, kinds: map[int32]string{}, gang: "g-1",
		place: assignment.Place{Attempt: attempt, Domain: topology.Path{"r"}, Hosts: []string{"node"}},
	}
	Expect(s.r.foreseen(s.ctx, sg, one)).To(BeTrue())
	one.asked = s.r.asStored(sg, one)
	created, err := (&pass{Reconciler: s.r, observed: observed{sg: sg}}).createPodInPlace(s.ctx, one, 0)
	return created, pod, err
}

var _ = Describe("A pod that another operator has created in place", func() {
	DescribeTable("is the one that was to be created", func(ctx SpecContext, node string, want bool) {
		s := newServer(ctx)
		sg := s.startable(group(1, 1))
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		created, pod, err := s.createInPlace(sg, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(created).To(BeTrue())
		if node != "" {
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			Expect(s.c.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
		}
		again, same, err := s.createInPlace(sg, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(want))
		Expect(same.UID).To(Equal(pod.UID))
	},
		Entry("when it waits", SpecTimeout(suite.Timeout()), "", true),
		Entry("when it is bound to its host", SpecTimeout(suite.Timeout()), "node", true),
		Entry("but not when it is bound to another host", SpecTimeout(suite.Timeout()), "other", false),
	)

	It("is deleted when it is of an earlier attempt, and its gang is not refused", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		sg := s.startable(group(1, 1))
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		_, earlier, err := s.createInPlace(sg, 1)
		Expect(err).NotTo(HaveOccurred())
		possible, _, err := s.createInPlace(sg, 2)
		Expect(err).To(MatchError(errEarlier))
		Expect(possible).To(BeTrue())
		created, next, err := s.createInPlace(sg, 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(created).To(BeTrue())
		Expect(next.UID).NotTo(Equal(earlier.UID))
	})
})
