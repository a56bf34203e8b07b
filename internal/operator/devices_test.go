// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// hosts makes nodes that take pods, until the test ends.
func (b *bare) hosts(n int) (names []string) {
	GinkgoHelper()
	for range n {
		node := &corev1.Node{}
		node.Name = newNode(b.c)
		names = append(names, node.Name)
		b.until("the node takes pods", func() error {
			Expect(b.c.Get(b.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
			node.Spec.Taints = nil
			if err := b.c.Update(b.ctx, node); err != nil {
				return err
			}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			node.Status.Capacity = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("20"),
			}
			node.Status.Allocatable = node.Status.Capacity
			return b.c.Status().Update(b.ctx, node)
		})
	}
	return names
}

// asking makes a deployment of one replica of two pods that ask for a resource, in a namespace of its own.
func (b *bare) asking(resources *nvidiav1alpha1.ResourceItem) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	worker := graphs.Worker(1, 2, 0, "")
	worker.Resources = &nvidiav1alpha1.Resources{Limits: resources}
	dgd := deployment(newNamespace(b.c), graphs.Components{"Worker": worker})
	Expect(b.c.Create(b.ctx, dgd)).To(Succeed())
	return dgd
}

// placed waits until Placed of a deployment is as wanted and says the words.
func (b *bare) placed(dgd *nvidiav1alpha1.DynamoGraphDeployment, status metav1.ConditionStatus, words string) {
	GinkgoHelper()
	b.until(fmt.Sprintf("Placed is %s with %q", status, words), func() error {
		Expect(b.c.Get(b.ctx, client.ObjectKeyFromObject(dgd), dgd)).To(Succeed())
		c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced)
		if c == nil || c.Status != status || !strings.Contains(c.Message, words) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// releasedTo are the hosts that the pods of a deployment are pinned to, once all are released; "" for one that is not pinned to a host.
func (b *bare) releasedTo(dgd *nvidiav1alpha1.DynamoGraphDeployment) (hosts []string) {
	GinkgoHelper()
	b.until("the pods are released", func() error {
		pods := &corev1.PodList{}
		Expect(b.c.List(b.ctx, pods, client.InNamespace(dgd.Namespace))).To(Succeed())
		hosts = nil
		for i := range pods.Items {
			if render.GateClosed(&pods.Items[i]) {
				return errors.New("a pod is gated")
			}
			hosts = append(hosts, gang.PinnedHost(&pods.Items[i]))
		}
		if len(hosts) != 2 {
			return fmt.Errorf("there are %d pods", len(hosts))
		}
		return nil
	})
	return hosts
}

var _ = Describe("A resource that no node offers", func() {
	It("keeps a gang waiting until a DeviceClass serves it and there are devices, or the operator is told that the kube-scheduler ignores it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		nodes := b.hosts(2)
		served := b.asking(&nvidiav1alpha1.ResourceItem{CPU: "1", Custom: map[string]string{"served.example/device": "2"}})
		ignored := b.asking(&nvidiav1alpha1.ResourceItem{CPU: "1", Custom: map[string]string{"ignored.example/mem": "3000"}})
		b.placed(served, metav1.ConditionFalse, "served.example/device")
		b.placed(ignored, metav1.ConditionFalse, "ignored.example/mem")

		By("a DeviceClass serves one")
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "device-"}}
		class.Spec.ExtendedResourceName = ptr.To("served.example/device")
		Expect(b.c.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = b.c.Delete(ctx, class) })
		b.placed(served, metav1.ConditionFalse, "devices of served.example/device: 0 of 2 devices of class "+class.Name+" free")

		By("a driver publishes devices")
		for _, node := range nodes {
			slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
				Driver: "served.example", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "0"}, {Name: "1"}},
			}}
			Expect(b.c.Create(ctx, slice)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { _ = b.c.Delete(ctx, slice) })
		}
		Expect(b.releasedTo(served)).To(ConsistOf(nodes), "the hosts that the pods are pinned to")
		b.placed(ignored, metav1.ConditionFalse, "ignored.example/mem")

		By("the other is ignored")
		b.stop()
		b.change = func(o *Options) { o.IgnoredResources = []string{"ignored.example"} }
		b.start()
		b.releasedTo(ignored)
		b.placed(served, metav1.ConditionTrue, "")
	})
})
