// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
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
