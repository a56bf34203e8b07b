// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A graph that asks for more pods than it may have", func() {
	It("runs up to the bound and reports it, whatever numbers are stored, and a smaller bound deletes nothing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBoundless(ctx)
		nodes := b.graph(3, &nvidiav1alpha1.MultinodeSpec{NodeCount: math.MaxInt32})
		both := b.graph(math.MaxInt32, &nvidiav1alpha1.MultinodeSpec{NodeCount: math.MaxInt32})
		gangs := b.graph(1_000_000, &nvidiav1alpha1.MultinodeSpec{NodeCount: 8})
		many := b.graph(1_000_000, nil)
		ordinary := b.graph(2, &nvidiav1alpha1.MultinodeSpec{NodeCount: 4})
		group := func(dgd *nvidiav1alpha1.DynamoGraphDeployment, replicas, size int32) { // one stored before the bound, counted by no one yet
			sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{
				Namespace: dgd.Namespace, Name: "g-work", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1alpha1.GroupVersion.WithKind("DynamoGraphDeployment"))},
			}}
			sg.Spec = trellisv1alpha1.ScalingGroupSpec{
				Graph: "g", Component: "work", Provider: specs.Gates.Name, Replicas: replicas, Multinode: size > 1, Revision: "1",
				Roles: []trellisv1alpha1.Role{{Name: render.RoleLeader, Count: 1}, {Name: render.RoleWorker, Count: size - 1}},
			}
			for i := range sg.Spec.Roles {
				sg.Spec.Roles[i].Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/x:1"}}
			}
			Expect(b.c.Create(ctx, sg)).To(Succeed())
		}
		group(both, math.MaxInt32, math.MaxInt32)
		group(gangs, 1_000_000, 8)

		before := heap()
		stop := b.operate(300)
		b.hasPods(many.Namespace, 300)
		b.hasPods(gangs.Namespace, 37*8)
		b.hasPods(ordinary.Namespace, 8)
		limit, exceeded := nvidiav1alpha1.ConditionWithinPodLimit, nvidiav1alpha1.ReasonPodLimitExceeded
		b.says(many, limit, exceeded, "the graph asks for 1000000 pods (replicas x nodeCount: work 1000000 x 1), more than the 300 that one graph may have (--max-pods-per-graph); work has 300 of 1000000 replicas")
		b.says(gangs, limit, exceeded, "work has 37 of 1000000 replicas")
		b.says(nodes, limit, exceeded, "work has 0 of 3 replicas")
		b.says(both, limit, exceeded, "work has 0 of 2147483647 replicas")
		b.says(nodes, nvidiav1alpha1.ConditionReady, exceeded, "more than the 300")
		Expect(b.pods(nodes.Namespace)+b.pods(both.Namespace)).To(BeZero(), "pods of replicas that are never whole")
		Expect(heap()-before).To(BeNumerically("<=", 256<<20), "the heap has grown by so many bytes")
		stop()

		notCounted := &trellisv1alpha1.ScalingGroup{} // the operator was killed before it had counted the pods
		Expect(b.c.Get(ctx, client.ObjectKey{Namespace: gangs.Namespace, Name: "g-work"}, notCounted)).To(Succeed())
		Expect(b.c.Status().Patch(ctx, notCounted, client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":0}}`)))).To(Succeed())

		stop = b.operate(100)
		b.says(many, limit, exceeded, "work has 300 of 1000000 replicas")
		Expect(b.c.Patch(ctx, many, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"work":{"replicas":90}}}}`)))).To(Succeed())
		b.hasPods(many.Namespace, 90)
		b.until("the condition is gone", func(ctx context.Context) error {
			Expect(b.c.Get(ctx, client.ObjectKeyFromObject(many), many)).To(Succeed())
			if c := meta.FindStatusCondition(many.Status.Conditions, limit); c != nil {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
		b.hasPods(gangs.Namespace, 37*8)
		stop()
	})
})

var _ = Describe("Sixty thousand replicas under a quota of 20 pods", func() {
	It("get 20 with about as many creates, and none once the deployment is deleted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBoundless(ctx)
		tight := newNamespace(b.c)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tight, Name: "pods"}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("20")}
		quotas.Enforce(ctx, b.c, quota)
		dgd := b.graphIn(tight, 60_000, nil)
		b.operate(100_000)
		b.hasPods(tight, 20)
		b.says(dgd, nvidiav1alpha1.ConditionReady, nvidiav1alpha1.ReasonSomeResourcesNotReady, "exceeded quota")
		Expect(b.creates.Load()).To(BeNumerically("<=", 40), "creates for 20 pods")

		Expect(b.c.Delete(ctx, dgd)).To(Succeed())
		made, looked := b.creates.Load(), reconciles("scalinggroup")
		Expect(b.c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(tight), client.GracePeriodSeconds(0))).To(Succeed())
		Expect(b.c.Delete(ctx, quota)).To(Succeed())
		b.hasPods(tight, 0)
		sg := &trellisv1alpha1.ScalingGroup{}
		Expect(b.c.Get(ctx, client.ObjectKey{Namespace: tight, Name: "g-work"}, sg)).To(Succeed())
		for i := range 20 { // a change of the group ends the delay
			before := sg.DeepCopy()
			sg.Spec.Replicas--
			sg.Spec.Pods = ptr.To(sg.Spec.Replicas)
			Expect(b.c.Patch(ctx, sg, client.MergeFrom(before))).To(Succeed())
			b.until("the group is looked at", func(context.Context) error {
				if reconciles("scalinggroup") <= looked+float64(i) {
					return fmt.Errorf("it is not")
				}
				return nil
			})
		}
		Expect(b.creates.Load()-made).To(BeNumerically("<=", 1), "creates for a deployment that is gone; one may have been on its way")
	})
})
