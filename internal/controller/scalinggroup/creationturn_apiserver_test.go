// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// behind is a client whose cache does not show a pod, and that notes which pods are created again.
type behind struct {
	client.Client
	hidden string
	again  []string
}

func (b *behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Client.List(ctx, list, opts...)
	if pods, is := list.(*corev1.PodList); is {
		pods.Items = slices.DeleteFunc(slices.Clone(pods.Items), func(pod corev1.Pod) bool { return pod.Name == b.hidden })
	}
	return err
}

func (b *behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, is := o.(*corev1.Pod); is && key.Name == b.hidden {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return b.Client.Get(ctx, key, o, opts...)
}

func (b *behind) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := b.Client.Create(ctx, o, opts...)
	if apierrors.IsAlreadyExists(err) {
		b.again = append(b.again, o.GetName())
	}
	return err
}

// limited gives the namespace a quota of pods, which is far from used up.
func (s *server) limited(pods string) *corev1.ResourceQuota {
	GinkgoHelper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "pods"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	Expect(s.c.Create(s.ctx, quota)).To(Succeed())
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	Expect(s.c.Status().Update(s.ctx, quota)).To(Succeed()) // the quota controller's part
	return quota
}

var _ = Describe("A quota of pods", func() {
	It("does not count a pod again that the cache does not show, or that is another's", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		quota := s.limited("20")
		Expect(s.c.Create(ctx, s.startable(group(2, 2)))).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		Expect(s.pods()).To(HaveLen(4))
		late := &behind{Client: s.c, hidden: "g-worker-1-1"}
		s.r.Client = late
		Expect(s.reconcile()).To(Succeed())
		Expect(s.c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "g-worker-2-0"}, Spec: s.group().Spec.Roles[0].Template.Spec})).To(Succeed())
		sg := s.group()
		sg.Spec.Replicas = 3
		Expect(s.c.Update(ctx, sg)).To(Succeed())
		for range 3 {
			Expect(s.reconcile()).To(MatchError(ContainSubstring("does not belong to this group")))
			s.r.refusals.byGroup = nil
		}
		Expect(late.again).To(BeEmpty(), "creates of pods that exist")
		Expect(s.r.Live.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
		used := quota.Status.Used[corev1.ResourcePods]
		Expect(used.Value()).To(BeNumerically("<=", 6), "the pods that the quota counts")
	})
})
