// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// gpusInStatus are a component's GPUs in both versions, of engine and replica; -1 if absent.
func (b *bare) gpusInStatus(dgd client.ObjectKey, component string) (engine, replica int64, err error) {
	alpha, beta := &nvidiav1alpha1.DynamoGraphDeployment{}, &nvidiav1beta1.DynamoGraphDeployment{}
	if err := errors.Join(b.c.Get(b.ctx, dgd, alpha), b.c.Get(b.ctx, dgd, beta)); err != nil {
		return 0, 0, err
	}
	a, c := alpha.Status.Services[component], beta.Status.Components[component]
	if !ptr.Equal(a.GPUsPerEngine, c.GPUsPerEngine) || !ptr.Equal(a.GPUsPerReplica, c.GPUsPerReplica) {
		return 0, 0, errors.New("the versions differ")
	}
	return ptr.Deref(c.GPUsPerEngine, -1), ptr.Deref(c.GPUsPerReplica, -1), nil
}

var _ = Describe("The GPUs of a replica", func() {
	It("are counted as the API server has their claims, and left out while it has none", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		namespace := newNamespace(b.c)
		requests := func(n int64) resourcev1.DeviceClaim {
			return resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "g", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Count: n}}}}
		}
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}
		Expect(client.IgnoreAlreadyExists(b.c.Create(ctx, class))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = b.c.Delete(ctx, class) })
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}, Spec: resourcev1.ResourceClaimSpec{Devices: requests(1)}}
		Expect(b.c.Create(ctx, claim)).To(Succeed())

		worker := graphs.Worker(1, 2, 0, "")
		worker.ExtraPodSpec.PodSpec = &corev1.PodSpec{
			Containers: []corev1.Container{{Name: "side", Image: "i", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "shared"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "own", ResourceClaimTemplateName: ptr.To("own")}, {Name: "shared", ResourceClaimName: ptr.To("shared")},
			},
		}
		worker.ExtraPodSpec.MainContainer.Resources.Claims = []corev1.ResourceClaim{{Name: "own"}}
		dgd := deployment(namespace, graphs.Components{"Worker": worker, "Frontend": graphs.Worker(1, 1, 0, "")})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		want := func(component string, engine, replica int64) {
			GinkgoHelper()
			b.until(fmt.Sprintf("%s has %d and %d GPUs", component, engine, replica), func() error {
				e, r, err := b.gpusInStatus(client.ObjectKeyFromObject(dgd), component)
				if err == nil && (e != engine || r != replica) {
					err = fmt.Errorf("it has %d and %d", e, r)
				}
				return err
			})
		}
		want("Frontend", 0, 0)
		want("Worker", -1, -1)

		By("the template is created, and the deployment is reconciled again")
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}}
		template.Spec.Spec.Devices = requests(4)
		Expect(b.c.Create(ctx, template)).To(Succeed())
		Expect(b.c.Patch(ctx, dgd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"looked":"at"}}}`)))).To(Succeed())
		want("Worker", 8, 9)
	})
})
