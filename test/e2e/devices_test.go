// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// deviceClass has a driver's devices served as a resource, until the test ends.
func (w *world) deviceClass(driver, resource string) {
	w.t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	class.Spec.ExtendedResourceName = ptr.To(resource)
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	w.create(class)
	w.t.Cleanup(func() { _ = w.c.Delete(context.Background(), class) })
}

var _ = Describe("A gang that asks for devices by a resource", func() {
	// A gang asks for devices by a resource that no node offers. Once a DeviceClass serves it the gang is placed, and the kube-scheduler allocates the devices
	// by a claim that it makes for each pod.
	It("is placed once a DeviceClass serves the resource, and gets the devices by claims", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "devices", racks(2, 0, "a/r0", "a/r1")...)
		driver, resource := w.name+".example.com", w.name+".example.com/gpu"
		nodes := &corev1.NodeList{}
		Expect(w.c.List(ctx, nodes)).To(Succeed())
		for i := range nodes.Items {
			if nodes.Items[i].Labels[poolKey] == w.name {
				slice := sampleSlice(nodes.Items[i].Name, driver, 6) // for the gang it takes two hosts
				w.create(slice)
				DeferCleanup(func() { _ = w.c.Delete(context.Background(), slice) })
			}
		}
		asks := worker(1, 2, 0, "rack")
		asks.Resources = &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{Custom: map[string]string{resource: "4"}}}
		w.create(w.graphOf("g", "", services{"Worker": asks}))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "NeverFits", "no host has "+resource, "needs 2 pods x 4 "+resource)

		w.deviceClass(driver, resource)
		w.ready("g")
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced", "all 1 packed replicas are placed")
		pods := podsOf(w, "g")
		Expect(pods).To(w.bePlacedInOne("rack"))
		for i := range pods {
			claimed := pods[i].Status.ExtendedResourceClaimStatus
			Expect(claimed).NotTo(BeNil(), "%s has no claim of its devices", pods[i].Name)
			Expect(claimed.ResourceClaimName).NotTo(BeEmpty(), "the claim of %s", pods[i].Name)
		}
	}, SpecTimeout(suite.Timeout()))
})
