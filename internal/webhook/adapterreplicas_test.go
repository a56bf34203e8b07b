// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Replicas that a scaling adapter owns stay when others write them, with a warning that names the adapter.
const (
	withAdapterGraph = `
metadata: {name: llm}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}}
    Frontend: {replicas: 1, scalingAdapter: {}}
`
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	owned       = `: DynamoGraphDeploymentScalingAdapter "llm-decode" owns it; leave replicas out of the manifest, and scale with kubectl scale dgdsa/llm-decode --replicas=`
	stays5      = "spec.services[Decode].replicas stays 5" + owned
)

// newWithAdapter creates a deployment from the manifest above. The operator then writes 5, the adapter's number.
func newWithAdapter(ctx context.Context) *edited {
	GinkgoHelper()
	e := &edited{newServer(ctx), readDeployment("", withAdapterGraph)}
	e.create(e.object)
	Expect(e.apply(withAdapterGraph)).To(Succeed())
	config := rest.CopyConfig(e.env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: scalingUser, Groups: []string{"system:masters"}}
	operator, err := client.New(config, client.Options{Scheme: e.scheme})
	Expect(err).NotTo(HaveOccurred())
	scaled := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"services":{"Decode":{"replicas":5}}}}`))
	Expect(operator.Patch(ctx, e.object.DeepCopy(), scaled)).To(Succeed())
	e.wantReplicas("Decode", 5)
	return e
}

// apply does to the deployment what client-side kubectl apply of a manifest does that was applied before.
func (e *edited) apply(manifest string) error {
	GinkgoHelper()
	applied := readDeployment("", manifest)
	text, err := json.Marshal(applied)
	Expect(err).NotTo(HaveOccurred())
	components := maps.Clone(applied.Object["spec"].(map[string]any)["services"].(map[string]any))
	if decode := components["Decode"].(map[string]any); decode["replicas"] == nil {
		decode["replicas"] = nil // as for a field that was in the manifest before
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{lastApplied: string(text)}, "labels": applied.GetLabels()},
		"spec":     map[string]any{"services": components},
	})
	Expect(err).NotTo(HaveOccurred())
	return e.change(string(patch))
}

var _ = Describe("Replicas that a scaling adapter owns", func() {
	Context("in an apply", func() {
		It("of the same manifest stay, with a warning that says why", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newWithAdapter(ctx)
			e.wantWarnings(func() error { return e.apply(withAdapterGraph) }, stays5+"2")
			e.wantReplicas("Decode", 5)
		})

		It("that changes something else stay", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newWithAdapter(ctx)
			Expect(e.apply(`
metadata: {name: llm, labels: {new: label}}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}, envs: [{name: A, value: b}]}
    Frontend: {replicas: 4, scalingAdapter: {}}`)).To(Succeed())
			e.wantReplicas("Decode", 5)
			Expect(e.now().GetLabels()).To(HaveKeyWithValue("new", "label"))
			By("the adapter of Frontend is not enabled")
			e.wantReplicas("Frontend", 4)
		})

		It("that leaves them out from now on stay", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newWithAdapter(ctx)
			Expect(e.apply(`
metadata: {name: llm}
spec: {services: {Decode: {scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`)).To(Succeed())
			e.wantReplicas("Decode", 5)
		})

		It("that is server-side stay, after the conflict of the first time", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newWithAdapter(ctx)
			serverSide := func(opts ...client.ApplyOption) error {
				object := readDeployment("", withAdapterGraph)
				return e.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), append(opts, client.FieldOwner("kubectl"))...)
			}
			By("which is a conflict the first time, as with every autoscaler")
			Expect(serverSide()).To(Satisfy(apierrors.IsConflict))
			e.wantWarnings(func() error { return serverSide(client.ForceOwnership) }, stays5+"2")
			e.wantReplicas("Decode", 5)
			By("and none from then on")
			Expect(serverSide()).To(Succeed())
			e.wantReplicas("Decode", 5)
		})
	})

	type editing struct {
		edit   func(e *edited) error
		wanted string
	}
	tests := map[string]editing{
		"by kubectl edit or patch": {func(e *edited) error { return e.change(`{"spec":{"services":{"Decode":{"replicas":3}}}}`) }, "3"},
		"under the operator's field manager": {func(e *edited) error {
			return e.change(`{"spec":{"services":{"Decode":{"replicas":3}}}}`, client.FieldOwner("trellis"))
		}, "3"},
		"by an update of the whole object": {func(e *edited) error {
			there := e.now()
			Expect(unstructured.SetNestedField(there.Object, int64(0), "spec", "services", "Decode", "replicas")).To(Succeed())
			return e.admin.Update(e.ctx, there)
		}, "0"},
		"by a manifest with another number": {func(e *edited) error {
			return e.apply(`
metadata: {name: llm}
spec: {services: {Decode: {replicas: 7, scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`)
		}, "7"},
		"in the edit that disables the adapter": {func(e *edited) error {
			return e.change(`{"spec":{"services":{"Decode":{"replicas":1,"scalingAdapter":null}}}}`)
		}, "1"},
	}
	DescribeTable("stay when others edit them", func(ctx SpecContext, tc editing) {
		e := newWithAdapter(ctx)
		e.wantWarning(func() error { return tc.edit(e) }, stays5+tc.wanted)
		e.wantReplicas("Decode", 5)
	}, suite.Entries(tests, SpecTimeout(suite.Timeout())))

	It("stay in the update that enables the adapter", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		e := newWithAdapter(ctx)
		Expect(e.change(`{"spec":{"services":{"Frontend":{"replicas":3,"scalingAdapter":{"enabled":true}}}}}`)).To(Succeed())
		e.wantReplicas("Frontend", 1)
		By("they may be edited once the adapter is disabled")
		Expect(e.change(`{"spec":{"services":{"Decode":{"scalingAdapter":null}}}}`)).To(Succeed())
		Expect(e.change(`{"spec":{"services":{"Decode":{"replicas":1}}}}`)).To(Succeed())
		e.wantReplicas("Decode", 1)
	})

	It("are named in the words of v1beta1", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		e := newWithAdapter(ctx)
		there := deploymentOf("v1beta1", "llm")
		e.get(there)
		patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/components/0/replicas","value":4}]`))
		e.wantWarning(func() error { return e.admin.Patch(ctx, there, patch) }, "spec.components[0].replicas stays 5"+owned+"4")
		e.wantReplicas("Decode", 5)
	})
})
