// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"fmt"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("An object of one version", func() {
	It("is read and edited in the other", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		alpha := deploymentOf("v1alpha1", "converted")
		alpha.Object["spec"] = manifest.Parse(GinkgoTB(), `services: {Worker: {replicas: 2}}`)
		withImages(alpha)
		s.create(alpha)
		beta := deploymentOf("v1beta1", "converted")
		s.get(beta)
		components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
		Expect(err).NotTo(HaveOccurred())
		for _, component := range components {
			delete(component.(map[string]any), "podTemplate")
		}
		Expect(cmp.Diff([]any{map[string]any{"name": "Worker", "replicas": int64(2)}}, components)).To(BeEmpty(), "components (-want +got)")

		patch := `[{"op":"test","path":"/spec/components/0/name","value":"Worker"},{"op":"add","path":"/spec/components/0/replicas","value":3}]`
		Expect(s.admin.Patch(ctx, beta, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		(&edited{s, alpha}).wantReplicas("Worker", 3)
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			all := &unstructured.UnstructuredList{}
			all.SetAPIVersion("nvidia.com/" + version)
			all.SetKind("DynamoGraphDeploymentList")
			Expect(s.admin.List(ctx, all)).To(Succeed())
			Expect(all.Items).NotTo(BeEmpty(), "the list of %s", version)
		}
		Expect(s.admin.Delete(ctx, beta)).To(Succeed())
	})

	It("may get parts by server-side apply in either version", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		specs := map[string]string{
			"v1beta1":  `{backendFramework: vllm, components: [{name: Worker, podTemplate: {spec: {containers: [{name: main, image: a}]}}}]}`,
			"v1alpha1": `{backendFramework: vllm}`,
		}
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			part := deploymentOf(version, "applied")
			part.SetLabels(map[string]string{version: "yes"})
			part.Object["spec"] = manifest.Parse(GinkgoTB(), specs[version])
			Expect(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(part), client.FieldOwner("applier-"+version), client.ForceOwnership)).To(Succeed())
		}
		Expect(s.admin.Delete(ctx, deploymentOf("v1beta1", "applied"))).To(Succeed())
	})
})

var _ = Describe("A definition", func() {
	It("that is applied without the authority gets it back, and one whose conversion leads elsewhere gets none", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		const kind, another = "DynamoGraphDeploymentScalingAdapter", "DynamoGraphDeployment"
		Expect(bundleOf(s.definition(kind))).To(Equal(s.authority()))
		port := *s.definition(kind).Spec.Conversion.Webhook.ClientConfig.Service.Port
		s.forget(kind)

		redirect := func(namespace string) {
			GinkgoHelper()
			patch := fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null,"service":{"namespace":%q}}}}}}`, namespace)
			Expect(s.admin.Patch(ctx, s.definition(kind), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		redirect("elsewhere")
		By("another definition loses its authority and gets it back: the operator has looked at all of them")
		s.forget(another)
		Expect(bundleOf(s.definition(kind))).To(BeEmpty(), "the definition that leads elsewhere")
		redirect(operatorNamespace)
		s.eventually("the authority is back", func() bool { return bytes.Equal(bundleOf(s.definition(kind)), s.authority()) })
		Expect(*s.definition(kind).Spec.Conversion.Webhook.ClientConfig.Service.Port).To(Equal(port))
	})
})

func bundleOf(crd *apiextensionsv1.CustomResourceDefinition) []byte {
	return crd.Spec.Conversion.Webhook.ClientConfig.CABundle
}
