// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deploymentOf(version, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("nvidia.com/" + version)
	u.SetKind("DynamoGraphDeployment")
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

var _ = Describe("the conversion", func() {
	It("shows an object of one version in the other, and an edit there in the first", func() {
		alpha := deploymentOf("v1alpha1", "converted")
		alpha.Object["spec"] = map[string]any{"services": map[string]any{"Worker": map[string]any{"replicas": int64(2)}}}
		withImages(alpha)
		Expect(admin.Create(ctx, alpha)).To(Succeed())
		beta := deploymentOf("v1beta1", "converted")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(beta), beta)).To(Succeed())
		components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
		Expect(err).NotTo(HaveOccurred())
		Expect(components).To(ConsistOf(And(HaveKeyWithValue("name", "Worker"), HaveKeyWithValue("replicas", int64(2)))))

		patch := `[{"op":"test","path":"/spec/components/0/name","value":"Worker"},{"op":"add","path":"/spec/components/0/replicas","value":3}]`
		Expect(admin.Patch(ctx, beta, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(alpha), alpha)).To(Succeed())
		replicas, _, err := unstructured.NestedInt64(alpha.Object, "spec", "services", "Worker", "replicas")
		Expect(err).NotTo(HaveOccurred())
		Expect(replicas).To(Equal(int64(3)))
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			all := &unstructured.UnstructuredList{}
			all.SetAPIVersion("nvidia.com/" + version)
			all.SetKind("DynamoGraphDeploymentList")
			Expect(admin.List(ctx, all)).To(Succeed())
			Expect(all.Items).NotTo(BeEmpty())
		}
		Expect(admin.Delete(ctx, beta)).To(Succeed())
	})

	It("takes parts of an object in a server-side apply of either version", func() {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			part := deploymentOf(version, "applied")
			part.SetLabels(map[string]string{version: "yes"})
			part.Object["spec"] = map[string]any{"backendFramework": "vllm"}
			if version == "v1beta1" {
				part.Object["spec"].(map[string]any)["components"] = []any{map[string]any{
					"name": "Worker", "podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}},
				}}
			}
			Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(part), client.FieldOwner("applier-"+version), client.ForceOwnership)).To(Succeed())
		}
		Expect(admin.Delete(ctx, deploymentOf("v1beta1", "applied"))).To(Succeed())
	})

	It("gets its authority back into a definition that was applied without, and into none that leads elsewhere", func() {
		crd := convertedDefinitions()[0]
		Expect(bundleOf(crd)).To(Equal(authority()))
		drop := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`))
		Expect(admin.Patch(ctx, crd, drop)).To(Succeed())
		Eventually(func() []byte { return bundleOf(convertedDefinitions()[0]) }).Should(Equal(authority()))

		port := *crd.Spec.Conversion.Webhook.ClientConfig.Service.Port
		redirect := func(namespace string) {
			GinkgoHelper()
			patch := fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null,"service":{"namespace":%q}}}}}}`, namespace)
			Expect(admin.Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		redirect("elsewhere")
		Consistently(func() []byte { return bundleOf(convertedDefinitions()[0]) }, "1s").Should(BeEmpty())
		redirect(operatorNamespace)
		Eventually(func() []byte { return bundleOf(convertedDefinitions()[0]) }).Should(Equal(authority()))
		Expect(convertedDefinitions()[0].Spec.Conversion.Webhook.ClientConfig.Service.Port).To(Equal(ptr.To(port)))
	})
})

func bundleOf(crd *apiextensionsv1.CustomResourceDefinition) []byte {
	return crd.Spec.Conversion.Webhook.ClientConfig.CABundle
}
