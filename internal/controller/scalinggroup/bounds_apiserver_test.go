// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// counting counts the pods that are asked for, made or not.
type counting struct {
	client.Client
	creates atomic.Int64
}

func (c *counting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.creates.Add(1)
	return c.Client.Create(ctx, o, opts...)
}

var _ = Describe("The memory of a group", func() {
	It("is empty once the group is gone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		sg := s.startable(group(1, 1))
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		s.r.refusals.note(sg, creationturns.All, errors.New("exceeded quota"))
		s.r.written.Wrote(s.request().NamespacedName)
		maps := func() (n int) {
			for _, v := range []reflect.Value{reflect.ValueOf(&s.r.refusals).Elem(), reflect.ValueOf(&s.r.written).Elem()} {
				for i := range v.NumField() {
					if v.Field(i).Kind() == reflect.Map {
						n += v.Field(i).Len()
					}
				}
			}
			return n
		}
		Expect(maps()).To(Equal(3), "entries")
		Expect(s.c.Delete(ctx, sg)).To(Succeed())
		Expect(s.reconcile()).To(Succeed())
		Expect(maps()).To(BeZero(), "entries that are left")
	})
})

var _ = Describe("Pods that a quota refuses", func() {
	It("are not asked for, however often the group is looked at, and the status keeps the reason", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "pods"}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20")}
		quotas.Enforce(ctx, s.c, quota)
		counted, clock := &counting{Client: s.c}, time.Now()
		s.r.Client, s.r.refusals.now = counted, func() time.Time { return clock }
		Expect(s.c.Create(ctx, s.startable(group(65536, 1)))).To(Succeed())

		Expect(s.reconcile()).To(Succeed())
		Expect(s.pods()).To(HaveLen(20))
		Expect(counted.creates.Load()).To(BeEquivalentTo(20), "creates; none is refused")
		counted.creates.Store(0)
		for range 100 { // events of its pods
			result, err := s.r.Reconcile(ctx, s.request())
			Expect(err).NotTo(HaveOccurred())
			Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", maxDelay)), "it looks again")
		}
		Expect(counted.creates.Load()).To(BeZero(), "creates while the quota is used up")
		c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		Expect(c).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring("exceeded quota"))))
		for range 10 { // five minutes at most
			clock = clock.Add(maxDelay)
			Expect(s.reconcile()).To(Succeed())
		}
		Expect(counted.creates.Load()).To(BeZero(), "creates while the quota is used up")

		quota = &corev1.ResourceQuota{}
		Expect(s.r.Live.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: "pods"}, quota)).To(Succeed())
		Expect(s.c.Delete(ctx, quota)).To(Succeed())
		clock = clock.Add(maxDelay)
		for range 100 { // the admission plugin sees the deletion a little later
			if err := s.reconcile(); err == nil {
				break
			}
			clock = clock.Add(maxDelay)
		}
		Expect(s.pods()).To(HaveLen(20+batch), "one batch more than 20 after the quota is gone")
	})
})

var _ = Describe("Nothing is made, although the cache does not know yet, for", func() {
	type end func(ctx context.Context, s *server, sg *trellisv1alpha1.ScalingGroup)
	DescribeTable("a group of which there is", func(ctx SpecContext, gone end) {
		s := newServer(ctx)
		created := s.startable(group(2, 2))
		Expect(s.c.Create(ctx, created)).To(Succeed())
		sg := created.DeepCopy()
		gone(ctx, s, sg)
		Expect(isGone(ctx, s.r.Live, sg)).To(BeTrue())
		live := s.group()
		live.Finalizers = nil
		Expect(s.c.Update(ctx, live)).To(Succeed())
		Expect(client.IgnoreNotFound(s.c.Delete(ctx, live))).To(Succeed())
	}, suite.Entries(map[string]end{
		"no such deployment":        func(_ context.Context, _ *server, sg *trellisv1alpha1.ScalingGroup) { own(sg, "g", "1") },
		"no such group":             func(_ context.Context, _ *server, sg *trellisv1alpha1.ScalingGroup) { sg.Name = "absent" },
		"another group of its name": func(_ context.Context, _ *server, sg *trellisv1alpha1.ScalingGroup) { sg.UID = "another" },
		"only one that is being deleted": func(ctx context.Context, s *server, _ *trellisv1alpha1.ScalingGroup) {
			live := s.group()
			live.Finalizers = []string{"example.com/hold"}
			Expect(s.c.Update(ctx, live)).To(Succeed())
			Expect(s.c.Delete(ctx, live)).To(Succeed())
		},
	}, SpecTimeout(suite.Timeout())))

	It("a group whose deployment is gone, not even a status", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		counted := &counting{Client: s.c}
		s.r.Client = counted
		sg := s.startable(group(2, 2))
		own(sg, "g", "1")
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		before := s.group().ResourceVersion
		Expect(s.reconcile()).To(Succeed())
		Expect(counted.creates.Load()).To(BeZero(), "pods that were asked for")
		Expect(s.group().ResourceVersion).To(Equal(before), "the status was written")
	})
})

func own(sg *trellisv1alpha1.ScalingGroup, name string, uid types.UID) {
	owner := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	sg.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.GroupVersionKind{Group: nvidiav1alpha1.GroupVersion.Group, Version: "v1alpha1", Kind: "DynamoGraphDeployment"})}
}
