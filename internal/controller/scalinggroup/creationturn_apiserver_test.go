// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
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
	quotas.Enforce(s.ctx, s.c, quota)
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

// atMost is a client that creates pods while there are fewer than so many.
type atMost struct {
	client.Client
	live client.Reader
	pods int
	mu   sync.Mutex
}

func (a *atMost) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if _, is := o.(*corev1.Pod); !is {
		return a.Client.Create(ctx, o, opts...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	there := &corev1.PodList{}
	if err := a.live.List(ctx, there, client.InNamespace(o.GetNamespace())); err != nil {
		return err
	}
	if len(there.Items) >= a.pods {
		return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("too many pods"))
	}
	return a.Client.Create(ctx, o, opts...)
}

var _ = Describe("A group whose scale-out is refused", func() {
	It("recreates a lost replica before the next try of it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		now := time.Now()
		s.r.Client, s.r.refusals.now = &atMost{Client: s.c, live: s.r.Live, pods: 3}, func() time.Time { return now }
		Expect(s.c.Create(ctx, s.startable(group(1, 2)))).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		s.run(0)
		sg := s.group()
		sg.Spec.Replicas = 3
		Expect(s.c.Update(ctx, sg)).To(Succeed())
		Expect(s.reconcile()).To(MatchError(ContainSubstring("too many pods")))
		s.settle()
		Expect(s.pods()).To(HaveLen(2))
		before := graphs.UIDs(s.pods())

		Expect(s.c.Delete(ctx, &s.pods()[1], client.GracePeriodSeconds(0))).To(Succeed())
		s.settle()
		Expect(s.listing()).To(MatchRegexp("^0-0:.* 0-1:[^ ]*$"))
		Expect(graphs.AllNew(before, s.pods(), 2)).To(Succeed())
		Expect(meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)).To(
			HaveField("Message", ContainSubstring("too many pods")))
	})
})

var _ = Describe("Pods that a LimitRange refuses", func() {
	It("are refused in its name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "sizes"}}
		limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}}
		Expect(s.c.Create(ctx, limits)).To(Succeed())
		sg := s.startable(group(1, 2))
		for i := range sg.Spec.Roles {
			amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
			sg.Spec.Roles[i].Template.Spec.Containers[0].Resources.Limits = amount
		}
		Eventually(ctx, func() error { // the admission plugin sees it a little later
			trial := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "trial"}, Spec: sg.Spec.Roles[0].Template.Spec}
			return s.c.Create(ctx, trial, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("per Pod")))
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		Expect(s.reconcile()).To(MatchError(ContainSubstring("maximum cpu usage per Pod is 8, but limit is 16 (LimitRange sizes)")))
	})
})
