// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

func TestAnObjectOfOneVersionIsReadAndEditedInTheOther(t *testing.T) {
	s := newServer(t)
	alpha := deploymentOf("v1alpha1", "converted")
	alpha.Object["spec"] = manifest.Parse(t, `services: {Worker: {replicas: 2}}`)
	withImages(t, alpha)
	s.create(alpha)
	beta := deploymentOf("v1beta1", "converted")
	s.get(beta)
	components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
	s.must(err)
	for _, component := range components {
		delete(component.(map[string]any), "podTemplate")
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "Worker", "replicas": int64(2)}}, components); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}

	patch := `[{"op":"test","path":"/spec/components/0/name","value":"Worker"},{"op":"add","path":"/spec/components/0/replicas","value":3}]`
	s.must(s.admin.Patch(t.Context(), beta, client.RawPatch(types.JSONPatchType, []byte(patch))))
	(&edited{s, alpha}).wantReplicas("Worker", 3)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("nvidia.com/" + version)
		all.SetKind("DynamoGraphDeploymentList")
		s.must(s.admin.List(t.Context(), all))
		if len(all.Items) == 0 {
			t.Errorf("the list of %s is empty", version)
		}
	}
	s.must(s.admin.Delete(t.Context(), beta))
}

func TestPartsAreAppliedServerSideInEitherVersion(t *testing.T) {
	s := newServer(t)
	specs := map[string]string{
		"v1beta1":  `{backendFramework: vllm, components: [{name: Worker, podTemplate: {spec: {containers: [{name: main, image: a}]}}}]}`,
		"v1alpha1": `{backendFramework: vllm}`,
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		part := deploymentOf(version, "applied")
		part.SetLabels(map[string]string{version: "yes"})
		part.Object["spec"] = manifest.Parse(t, specs[version])
		s.must(s.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(part), client.FieldOwner("applier-"+version), client.ForceOwnership))
	}
	s.must(s.admin.Delete(t.Context(), deploymentOf("v1beta1", "applied")))
}

// A definition that is applied without the authority gets it back. One whose conversion leads elsewhere gets none.
func TestADefinitionGetsItsAuthorityBack(t *testing.T) {
	s := newServer(t)
	const kind = "DynamoGraphDeploymentScalingAdapter" // the API server takes seconds to check the other definition
	bundle := func() []byte { return bundleOf(s.definition(kind)) }
	trusts := func() bool { return bytes.Equal(bundle(), s.authority()) }
	if !trusts() {
		t.Fatal("the definition does not have the authority")
	}
	crd := s.definition(kind)
	change := func(patch string) {
		t.Helper()
		s.must(s.admin.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	change(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`)
	s.eventually("the authority is back", trusts)

	port := *crd.Spec.Conversion.Webhook.ClientConfig.Service.Port
	redirect := func(namespace string) {
		t.Helper()
		change(fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null,"service":{"namespace":%q}}}}}}`, namespace))
	}
	redirect("elsewhere")
	s.stays("the definition that leads elsewhere has no authority", time.Second, func() bool { return len(bundle()) == 0 })
	redirect(operatorNamespace)
	s.eventually("the authority is back", trusts)
	if got := *s.definition(kind).Spec.Conversion.Webhook.ClientConfig.Service.Port; got != port {
		t.Errorf("port %d, want %d", got, port)
	}
}

func bundleOf(crd *apiextensionsv1.CustomResourceDefinition) []byte {
	return crd.Spec.Conversion.Webhook.ClientConfig.CABundle
}
