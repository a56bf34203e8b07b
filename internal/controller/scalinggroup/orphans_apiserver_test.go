// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// orphan deletes the group and plays the garbage collector for --cascade=orphan.
func (s *server) orphan() {
	GinkgoHelper()
	Expect(s.c.Delete(s.ctx, s.group())).To(Succeed())
	for _, pod := range s.pods() {
		bare := pod.DeepCopy()
		bare.OwnerReferences = nil
		Expect(s.c.Patch(s.ctx, bare, client.MergeFrom(&pod))).To(Succeed())
	}
}

// uids are the pods' names and UIDs.
func (s *server) uids() string {
	var out []string
	for _, pod := range s.pods() {
		out = append(out, fmt.Sprintf("%s=%s", pod.Name, pod.UID))
	}
	return strings.Join(out, " ")
}

var _ = Describe("Pods of a group that was deleted with --cascade=orphan", func() {
	It("are adopted by the group that is made again, and run on; a copy under another name and one on its way out are not", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		Expect(s.c.Create(ctx, s.startable(group(2, 2)))).To(Succeed())
		s.settle()
		for ordinal := range 2 {
			s.run(ordinal)
		}
		s.settle()
		before := s.uids()

		By("the same group: its pods run on and are its own")
		s.orphan()
		copied := s.pods()[0].DeepCopy()
		copied.ObjectMeta = metav1.ObjectMeta{Namespace: s.ns, Name: "a-copy", Labels: copied.Labels}
		copied.Spec.NodeName = "" // nothing runs it
		Expect(s.c.Create(ctx, copied)).To(Succeed())
		Expect(s.reconcile()).To(Succeed()) // there is no such group now
		Expect(s.c.Create(ctx, s.startable(group(2, 2)))).To(Succeed())
		s.settle()
		Expect(s.c.Get(ctx, client.ObjectKeyFromObject(copied), copied)).To(Succeed())
		Expect(copied.OwnerReferences).To(BeEmpty(), "a copy under another name was adopted")
		Expect(s.c.Delete(ctx, copied, client.GracePeriodSeconds(0))).To(Succeed())
		s.expect("the same group", "0-0:new 0-1:new 1-0:new 1-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
		Expect(s.uids()).To(Equal(before))
		for _, pod := range s.pods() {
			Expect(render.Member(&pod, s.group())).To(BeTrue(), "pod %s belongs to %v", pod.Name, pod.OwnerReferences)
		}

		By("another template and fewer replicas: adopted, scaled in and replaced. A pod on its way out is waited for")
		s.orphan()
		leaving := s.pods()[3]
		Expect(s.c.Delete(ctx, &leaving, client.GracePeriodSeconds(600))).To(Succeed())
		newer := s.startable(group(1, 2))
		newer.Spec.Revision = "newer"
		Expect(s.c.Create(ctx, newer)).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		Expect(c).To(Or(BeNil(), HaveField("Status", metav1.ConditionTrue)))
		s.expect("another group", "0-0:newer 0-1:newer | 1 there, 1 updated, 0 ready, 0 outdated")
	})

	It("are left alone while something keeps them from being adopted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		Expect(s.c.Create(ctx, s.startable(group(1, 1)))).To(Succeed())
		s.settle()
		s.orphan()
		Expect(s.c.Create(ctx, s.startable(group(1, 1)))).To(Succeed())
		admitted, counted := s.r.Client, &counting{Client: refusing{s.c}}
		s.r.Client = counted
		Expect(s.reconcile()).To(MatchError(ContainSubstring("adopting Pod g-worker-0: ")))
		c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		Expect(c).To(HaveField("Message", ContainSubstring("a policy refuses it")))
		Expect(counted.creates.Load()).To(BeZero(), "creates of a name that is taken")
		s.r.Client = admitted

		stale := s.group()
		stale.UID = "another"
		done, err := s.r.adopt(ctx, stale, []*corev1.Pod{&s.pods()[0]})
		Expect(err).NotTo(HaveOccurred())
		Expect(done).To(BeTrue())
		Expect(s.pods()[0].OwnerReferences).To(BeEmpty(), "a group that is gone adopted")
		s.expect("admitted", "0:new | 1 there, 1 updated, 0 ready, 0 outdated")
	})
})

// refusing refuses patches of pods.
type refusing struct{ client.Client }

func (r refusing) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, ok := o.(*corev1.Pod); ok {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("a policy refuses it"))
	}
	return r.Client.Patch(ctx, o, patch, options...)
}
