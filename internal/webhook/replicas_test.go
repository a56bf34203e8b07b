// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const handedOverGraph = `
metadata: {name: llm}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}}
    Frontend: {replicas: 1, scalingAdapter: {}}
`

var _ = Describe("replicas that a scaling adapter owns", func() {
	const (
		lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
		owned       = `: DynamoGraphDeploymentScalingAdapter "llm-decode" owns it; leave replicas out of the manifest, and scale with kubectl scale dgdsa/llm-decode --replicas=`
		stays5      = "spec.services[Decode].replicas stays 5" + owned
	)
	var object *unstructured.Unstructured

	// apply does to the deployment what client-side kubectl apply of a manifest does that was applied before.
	apply := func(manifest string) error {
		applied := graph("", manifest)
		text, err := json.Marshal(applied)
		Expect(err).NotTo(HaveOccurred())
		services := maps.Clone(applied.Object["spec"].(map[string]any)["services"].(map[string]any))
		if decode := services["Decode"].(map[string]any); decode["replicas"] == nil {
			decode["replicas"] = nil // as for a field that was in the manifest before
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{lastApplied: string(text)}, "labels": applied.GetLabels()},
			"spec":     map[string]any{"services": services},
		})
		Expect(err).NotTo(HaveOccurred())
		return change(object, string(patch))
	}
	replicas := func() int64 {
		GinkgoHelper()
		there := object.DeepCopy()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), there)).To(Succeed())
		n, _, err := unstructured.NestedInt64(there.Object, "spec", "services", "Decode", "replicas")
		Expect(err).NotTo(HaveOccurred())
		return n
	}

	operator := func() client.Client {
		GinkgoHelper()
		config := rest.CopyConfig(env.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: scalingUser, Groups: []string{"system:masters"}}
		c, err := client.New(config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		return c
	}
	scaled := func(c client.Client, n int) {
		GinkgoHelper()
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"services":{"Decode":{"replicas":%d}}}}`, n))
		Expect(c.Patch(ctx, object.DeepCopy(), patch)).To(Succeed())
	}

	BeforeEach(func() {
		object = graph("", handedOverGraph)
		created(object)
		Expect(apply(handedOverGraph)).To(Succeed())
		By("the operator carries the adapter's number")
		scaled(operator(), 5)
		Expect(replicas()).To(BeEquivalentTo(5))
	})

	It("stay when the same manifest is applied again, with a warning that says why", func() {
		Expect(warned.during(func() { Expect(apply(handedOverGraph)).To(Succeed()) })).To(ConsistOf(stays5 + "2"))
		Expect(replicas()).To(BeEquivalentTo(5))
	})

	It("stay when the manifest changes something else", func() {
		Expect(apply(`
metadata: {name: llm, labels: {new: label}}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}, envs: [{name: A, value: b}]}
    Frontend: {replicas: 4, scalingAdapter: {}}`)).To(Succeed())
		Expect(replicas()).To(BeEquivalentTo(5))
		there := object.DeepCopy()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), there)).To(Succeed())
		Expect(there.GetLabels()).To(HaveKeyWithValue("new", "label"))
		n, _, _ := unstructured.NestedInt64(there.Object, "spec", "services", "Frontend", "replicas")
		Expect(n).To(BeEquivalentTo(4), "the adapter of Frontend is not enabled")
	})

	It("stay when the manifest leaves them out from now on", func() {
		Expect(apply(`
metadata: {name: llm}
spec: {services: {Decode: {scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`)).To(Succeed())
		Expect(replicas()).To(BeEquivalentTo(5))
	})

	It("stay when the manifest is applied server-side", func() {
		serverSide := func(opts ...client.ApplyOption) error {
			return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(graph("", handedOverGraph)), append(opts, client.FieldOwner("kubectl"))...)
		}
		By("which is a conflict the first time, as with every autoscaler")
		err := serverSide()
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		Expect(warned.during(func() { Expect(serverSide(client.ForceOwnership)).To(Succeed()) })).To(ConsistOf(stays5 + "2"))
		Expect(replicas()).To(BeEquivalentTo(5))
		By("and none from then on")
		Expect(serverSide()).To(Succeed())
		Expect(replicas()).To(BeEquivalentTo(5))
	})

	DescribeTable("stay whoever edits them", func(edit func() error, wanted string) {
		Expect(warned.during(func() { Expect(edit()).To(Succeed()) })).To(ContainElement(stays5 + wanted))
		Expect(replicas()).To(BeEquivalentTo(5))
	},
		Entry("by kubectl edit or patch", func() error { return change(object, `{"spec":{"services":{"Decode":{"replicas":3}}}}`) }, "3"),
		Entry("under the operator's field manager", func() error {
			return change(object, `{"spec":{"services":{"Decode":{"replicas":3}}}}`, client.FieldOwner("trellis"))
		}, "3"),
		Entry("by an update of the whole object", func() error {
			there := object.DeepCopy()
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), there)).To(Succeed())
			Expect(unstructured.SetNestedField(there.Object, int64(0), "spec", "services", "Decode", "replicas")).To(Succeed())
			return admin.Update(ctx, there)
		}, "0"),
		Entry("by a manifest with another number", func() error {
			return apply(`
metadata: {name: llm}
spec: {services: {Decode: {replicas: 7, scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`)
		}, "7"),
		Entry("in the edit that takes them back", func() error {
			return change(object, `{"spec":{"services":{"Decode":{"replicas":1,"scalingAdapter":null}}}}`)
		}, "1"),
	)

	It("stay in the edit that hands them over, and may be edited again after they were requeued", func() {
		Expect(change(object, `{"spec":{"services":{"Frontend":{"replicas":3,"scalingAdapter":{"enabled":true}}}}}`)).To(Succeed())
		there := object.DeepCopy()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), there)).To(Succeed())
		n, _, _ := unstructured.NestedInt64(there.Object, "spec", "services", "Frontend", "replicas")
		Expect(n).To(BeEquivalentTo(1))
		Expect(change(object, `{"spec":{"services":{"Decode":{"scalingAdapter":null}}}}`)).To(Succeed())
		Expect(change(object, `{"spec":{"services":{"Decode":{"replicas":1}}}}`)).To(Succeed())
		Expect(replicas()).To(BeEquivalentTo(1))
	})

	It("are named in the words of v1beta1 to those who write it", func() {
		there := &unstructured.Unstructured{}
		there.SetAPIVersion("nvidia.com/v1beta1")
		there.SetKind("DynamoGraphDeployment")
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), there)).To(Succeed())
		patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/components/0/replicas","value":4}]`))
		Expect(warned.during(func() { Expect(admin.Patch(ctx, there, patch)).To(Succeed()) })).To(ContainElement("spec.components[0].replicas stays 5" + owned + "4"))
		Expect(replicas()).To(BeEquivalentTo(5))
	})
})
