// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// On a real API server, which keeps who writes which field and in which version, and converts objects without that to compare them.
var _ = Describe("A field that v1alpha1 has at the service and in its main container", func() {
	const (
		inMain = `componentType: worker, replicas: 1, extraPodSpec: {mainContainer: {image: i, env: [{name: A, value: "1"}], resources: {limits: {nvidia.com/gpu: "8", rdma/ib: "1"}}}}`
		inBeta = `type: worker, replicas: 1, podTemplate: {spec: {containers: [{name: main, image: i, env: [{name: A, value: "1"}], resources: {limits: {nvidia.com/gpu: "8", rdma/ib: "1"}}}]}}`
		fresh  = `componentType: worker, replicas: 1, envs: [{name: A, value: "1"}], resources: {limits: {gpu: "8", custom: {rdma/ib: "1"}}}, extraPodSpec: {mainContainer: {image: i}}`
	)
	read := func(s *server, version string) *unstructured.Unstructured {
		GinkgoHelper()
		object := deploymentOf(version, "both")
		s.get(object)
		return object
	}
	says := func(s *server, want string) {
		GinkgoHelper()
		Expect(componentsOf(read(s, "v1alpha1"))["Worker"]).To(Equal(manifest.Parse(GinkgoTB(), "{"+want+"}")))
	}
	apply := func(s *server, version, worker, manager string) error {
		GinkgoHelper()
		return s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(oneWorker(version, "", worker)), client.FieldOwner(manager))
	}
	patchBeta := func(s *server, patch string) {
		GinkgoHelper()
		Expect(s.admin.Patch(s.ctx, deploymentOf("v1beta1", "both"), client.RawPatch("application/json-patch+json", []byte(patch)), client.FieldOwner("planner"))).To(Succeed())
	}

	It("is read at the service if the deployment was never written in v1alpha1", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		s.create(oneWorker("v1beta1", "", inBeta))
		says(s, fresh)

		By("it is applied in v1alpha1 as it is read, twice")
		generation := read(s, "v1beta1").GetGeneration()
		for range 2 {
			Expect(apply(s, "v1alpha1", fresh, "gitops")).To(Succeed())
			says(s, fresh)
			Expect(read(s, "v1beta1").GetGeneration()).To(Equal(generation))
		}
		patchBeta(s, `[{"op":"replace","path":"/spec/components/0/podTemplate/spec/containers/0/image","value":"j"}]`)
		Expect(componentsOf(read(s, "v1alpha1"))["Worker"]["envs"]).To(HaveLen(1))
	})

	for name, worker := range map[string]string{"in its main container": inMain, "at the service": fresh} {
		It("is lost by no manager that applies one version after the other, with the field "+name, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			s := newServer(ctx)
			s.deleteAfter(oneWorker("v1alpha1", "", ""))
			Expect(apply(s, "v1alpha1", worker, "gitops")).To(Succeed())
			was := componentsOf(read(s, "v1beta1"))["Worker"]
			generation := read(s, "v1beta1").GetGeneration()
			for range 2 {
				for _, next := range []struct{ version, worker string }{{"v1beta1", inBeta}, {"v1beta1", inBeta}, {"v1alpha1", worker}} {
					Expect(apply(s, next.version, next.worker, "gitops")).To(Succeed())
					Expect(componentsOf(read(s, "v1beta1"))["Worker"]).To(Equal(was), "after the same was applied in %s", next.version)
					if name == "at the service" { // what is in main is read at the service meanwhile, and then in both places
						Expect(read(s, "v1beta1").GetGeneration()).To(Equal(generation), "after the same was applied in %s", next.version)
					}
				}
			}

			if name != "at the service" {
				return
			}
			By("it leaves the field out in the other version")
			without := `type: worker, replicas: 1, podTemplate: {spec: {containers: [{name: main, image: i}]}}`
			Expect(apply(s, "v1beta1", without, "gitops")).To(Succeed())
			Expect(componentsOf(read(s, "v1beta1"))["Worker"]).To(Equal(manifest.Parse(GinkgoTB(), "{name: Worker, "+without+"}")))
		})
	}

	for name, worker := range map[string]string{"in its main container": inMain, "at the service": fresh} {
		It("stays "+name+" if it was written there, whatever is written in v1beta1", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			s := newServer(ctx)
			s.deleteAfter(oneWorker("v1alpha1", "", ""))
			Expect(apply(s, "v1alpha1", worker, "gitops")).To(Succeed())
			says(s, worker)
			before := read(s, "v1alpha1")
			Expect(apply(s, "v1alpha1", worker, "gitops")).To(Succeed())
			Expect(read(s, "v1alpha1").GetResourceVersion()).To(Equal(before.GetResourceVersion()), "the same manifest was written")

			By("another writer, in v1beta1")
			patchBeta(s, `[{"op":"add","path":"/spec/components/0/podTemplate/spec/containers/-","value":{"name":"log","image":"l"}}]`)
			between := read(s, "v1beta1")
			Expect(apply(s, "v1alpha1", worker, "gitops")).To(Succeed(), "a conflict over what was not changed")
			after := read(s, "v1beta1")
			Expect(after.GetGeneration()).To(Equal(between.GetGeneration()))
			Expect(after.Object["spec"]).To(Equal(between.Object["spec"]))
			component := componentsOf(read(s, "v1alpha1"))["Worker"]
			main := asMap(asMap(component["extraPodSpec"])["mainContainer"])
			Expect([]any{component["envs"], main["env"]}).To(ConsistOf(BeNil(), HaveLen(1)), "the variable, in one place")

			By("that one over the field of the first, without force")
			taken := oneWorker("v1beta1", "", `podTemplate: {spec: {containers: [{name: main, env: [{name: A, value: "2"}]}]}}`)
			err := s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(taken), client.FieldOwner("planner"))
			Expect(err).To(MatchError(ContainSubstring("conflict with \"gitops\"")))
		})
	}
})
