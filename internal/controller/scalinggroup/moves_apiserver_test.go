// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// evict writes what the webhook writes when the eviction of a pod is requested.
func (s *server) evict(name string) {
	GinkgoHelper()
	request := leaving.Eviction{At: time.Now()}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, leaving.AnnotationEviction, request.String())
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = s.ns, name
	Expect(s.c.Patch(s.ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

var _ = Describe("A replica of which a pod is to be evicted", func() {
	serving := func(ctx SpecContext) *server {
		s := newServer(ctx)
		Expect(s.c.Create(ctx, s.startable(group(2, 2)))).To(Succeed())
		s.settle()
		for ordinal := range 2 {
			s.run(ordinal)
		}
		s.expect("all run", "0-0:new 0-1:new 1-0:new 1-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
		return s
	}

	It("is deleted as a unit when its successor serves, and not before", func(ctx SpecContext) {
		s := serving(ctx)
		s.evict("g-worker-1-0")
		s.expect("its successor is created", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 2 ready, 0 outdated")
		Expect(s.group().Status.Moves).To(ConsistOf(And(HaveField("Replica", BeEquivalentTo(1)), HaveField("InPlace", BeFalse()))))
		Expect(meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionMoved)).To(HaveField("Message",
			"moving Worker-1: its successor Worker-2 waits for a place (the eviction of pod g-worker-1-0 was requested)"))
		s.r.refusals.byGroup = nil // a restart of the operator: nothing in memory
		s.settle()
		s.run(2)
		s.expect("the successor serves", "0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
		Expect(s.group().Status.Moves).To(BeEmpty())
		Expect(meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionMoved)).To(BeNil())
	}, SpecTimeout(suite.Timeout()))

	It("goes without a successor when it is overdue, and the successor remains", func(ctx SpecContext) {
		s := serving(ctx)
		s.evict("g-worker-1-0")
		s.settle()
		s.r.refusals.now = func() time.Time { return time.Now().Add(DefaultMoveTimeout + time.Second) }
		s.expect("overdue", "0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 2 updated, 1 ready, 0 outdated")
	}, SpecTimeout(suite.Timeout()))

	// Serial: other specs write the status of their quotas themselves.
	It("goes without a successor at once where a quota refuses the successor", Serial, func(ctx SpecContext) {
		s := serving(ctx)
		quotas.Count(shared)
		quotas.Limit(ctx, s.c, s.ns, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")})
		s.evict("g-worker-1-0")
		s.expect("it waits for its successor", "0-0:new 0-1:new 1-0:new 1-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
		Expect(s.group().Status.Moves).To(ConsistOf(HaveField("InPlace", BeFalse())), "a quota may count pods that are gone")
		result, err := s.r.Reconcile(ctx, s.request())
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically("<=", quotaLackCounts))
		before := s.pods()[2].UID
		s.r.refusals.now = func() time.Time { return time.Now().Add(quotaLackCounts + time.Second) }
		Eventually(ctx, func() error {
			s.settle()
			if pods := s.pods(); len(pods) != 4 || pods[2].UID == before {
				return errors.New("its successor does not get its quota: " + s.listing())
			}
			return nil
		}).WithTimeout(suite.Patience()).Should(Succeed())
		s.expect("in place", "0-0:new 0-1:new 1-0:new 1-1:new | 2 there, 2 updated, 1 ready, 0 outdated")
		Expect(s.group().Status.Moves).To(BeEmpty())
	}, SpecTimeout(suite.Timeout()))

	It("has the move stored before anything is created", func(ctx SpecContext) {
		s := serving(ctx)
		s.evict("g-worker-1-0")
		writes := s.r.Client
		s.r.Client = &refusingStatus{Client: writes}
		Eventually(ctx, s.reconcile).ShouldNot(Succeed(), "the status was not refused")
		Expect(s.pods()).To(HaveLen(4), "a successor was created before the move was stored")
		s.r.Client = writes
		s.expect("it is created then", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 2 ready, 0 outdated")
	}, SpecTimeout(suite.Timeout()))
})

// refusingStatus refuses all writes of statuses.
type refusingStatus struct{ client.Client }

// Status implements client.Client.
func (c *refusingStatus) Status() client.SubResourceWriter { return refusedStatus{c.Client.Status()} }

type refusedStatus struct{ client.SubResourceWriter }

// Patch implements client.SubResourceWriter.
func (refusedStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errors.New("refused")
}
