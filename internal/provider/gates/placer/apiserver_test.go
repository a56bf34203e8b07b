// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A release", Label("gates"), func() {
	It("adds its own entry to the managed fields of a pod, and keeps those of others", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		namespace := suite.Namespace(api)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: render.PlacementGate}, {Name: "example.com/quota"}},
			Containers:      []corev1.Container{{Name: "main", Image: "example.com/x:1"}},
		}}
		Expect(api.Create(ctx, pod, client.FieldOwner("creator"))).To(Succeed())
		labelled := corev1apply.Pod(pod.Name, pod.Namespace).WithLabels(map[string]string{"team": "a"})
		Expect(api.Apply(ctx, labelled, client.FieldOwner("somebody"))).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		pin := gang.Pin{Gang: "g-1", Labels: map[string]string{"rack-key": "r0"}}
		placer := Placer{Client: client.WithFieldOwner(api, "release"), Live: api}
		Expect(placer.Release(ctx, pod, pin)).To(Succeed())

		Expect(api.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.ManagedFields).To(ConsistOf(HaveField("Manager", "creator"), HaveField("Manager", "release"), HaveField("Manager", "somebody")))
		Expect(render.GateClosed(pod)).To(BeFalse(), "gates %v", pod.Spec.SchedulingGates)
		Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue("rack-key", "r0"))
	})
})

var _ = Describe("An eviction", Label("gates"), func() {
	It("leaves a pod that is bound meanwhile", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: suite.Namespace(api), Name: "p"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/x:1"}},
		}}
		Expect(api.Create(ctx, pod)).To(Succeed())
		seen := pod.DeepCopy()
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		Expect(api.SubResource("binding").Create(ctx, pod, binding)).To(Succeed())
		placer := Placer{Client: api, Live: api}
		Expect(placer.Evict(ctx, seen)).To(MatchError(provider.ErrPodChanged))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.DeletionTimestamp).To(BeNil())
		Expect(pod.Spec.NodeName).To(Equal("n"))

		Expect(placer.Evict(ctx, pod)).To(Succeed(), "a bound pod, by its UID")
	})
})
