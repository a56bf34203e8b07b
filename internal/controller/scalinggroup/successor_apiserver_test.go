// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A group that was deleted and created again", func() {
	It("does not get the status of the deleted one, which the cache still shows", func(ctx SpecContext) {
		s := newServer(ctx)
		create := func() *trellisv1alpha1.ScalingGroup {
			sg := s.startable(group(1, 1))
			Expect(s.c.Create(ctx, sg)).To(Succeed())
			return sg
		}
		deleted := create()
		Expect(s.c.Delete(ctx, deleted)).To(Succeed())
		created := create()
		before := created.DeepCopy()

		_, err := s.r.report(ctx, deleted, trellisv1alpha1.ScalingGroupStatus{Replicas: 1, ReadyReplicas: 1})
		Expect(err).NotTo(HaveOccurred())
		failed := backOff{isNew: true, failed: []trellisv1alpha1.FailedReplica{{
			Failures: 1, Reason: "g-worker-0 failed", NewestPod: metav1.Now(), RetryAt: metav1.Now(), Revision: "1",
		}}}
		Expect((&pass{Reconciler: s.r, observed: observed{sg: deleted}, decision: decision{failing: failed}}).remember(ctx)).To(Succeed())
		Expect(s.r.Live.Get(ctx, client.ObjectKeyFromObject(created), created)).To(Succeed())
		Expect(created.UID).To(Equal(before.UID))
		Expect(created.Status).To(Equal(before.Status))
	}, SpecTimeout(suite.Timeout()))
})
