// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// change applies a JSON merge patch to a deployment.
func change(object *unstructured.Unstructured, patch string, opts ...client.PatchOption) error {
	return admin.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), opts...)
}

var _ = Describe("changing a deployment", func() {
	var object *unstructured.Unstructured

	BeforeEach(func() {
		created(topology("gb200"))
		object = graph("gb200", packed)
		created(object)
	})

	DescribeTable("passes", func(patch string) {
		Expect(warned.during(func() { Expect(change(object, patch)).To(Succeed()) })).To(BeEmpty())
	},
		Entry("replicas", `{"spec":{"services":{"Worker":{"replicas":5}}}}`),
		Entry("replicas left out again", `{"spec":{"services":{"Worker":{"replicas":null}}}}`),
		Entry("nodeCount", `{"spec":{"services":{"Worker":{"multinode":{"nodeCount":8}}}}}`),
		Entry("labels", `{"metadata":{"labels":{"a":"b"}}}`),
	)

	DescribeTable("refuses", func(patch, path, text string) {
		Expect(change(object, patch)).To(badRequest(path, text))
		Expect(change(object, patch, client.DryRunAll)).To(badRequest(path, text))
	},
		Entry("another profile", `{"spec":{"topologyConstraint":{"topologyProfile":"h100"}}}`, "spec.topologyConstraint", "is immutable"),
		Entry("no constraint", `{"spec":{"topologyConstraint":null,"services":{"Worker":{"topologyConstraint":null}}}}`, "spec.topologyConstraint", "is immutable"),
		Entry("a preferred domain", `{"spec":{"topologyConstraint":{"preferredPackDomain":"rack"}}}`, "spec.topologyConstraint", "is immutable"),
		Entry("another constraint of a service", `{"spec":{"services":{"Worker":{"topologyConstraint":{"packDomain":"block"}}}}}`, "topologyConstraint", "is immutable"),
		Entry("a constraint for another service", `{"spec":{"services":{"Frontend":{"topologyConstraint":{"packDomain":"rack"}}}}}`, "topologyConstraint", "is immutable"),
		Entry("a service less", `{"spec":{"services":{"Frontend":null}}}`, "spec.services", "service topology is immutable"),
		Entry("a service more", `{"spec":{"services":{"Planner":{}}}}`, "spec.services", "service topology is immutable"),
		Entry("single-node instead of multinode", `{"spec":{"services":{"Worker":{"multinode":null}}}}`, "multinode", "cannot change node topology"),
		Entry("a backend framework", `{"spec":{"backendFramework":"vllm"}}`, "spec.backendFramework", "is immutable"),
		Entry("half a GPU", `{"spec":{"services":{"Worker":{"resources":{"limits":{"gpu":"0.5"}}}}}}`, "spec.services[Worker].resources.limits.gpu", "must be a whole number"),
	)

	Context("whose provider is to be another", func() {
		const (
			key      = "metadata.annotations[trellis.dev/provider]"
			text     = "the provider is immutable while the deployment has pods (service Worker has 2 replicas); scale all services to 0 first"
			podGroup = `{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}}}`
			kai      = `{"metadata":{"annotations":{"trellis.dev/provider":"KAI"}}}`
			none     = `{"metadata":{"annotations":{"trellis.dev/provider":null}}}`
		)
		has := func(replicas int32) {
			typed := &nvidiav1alpha1.DynamoGraphDeployment{}
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), typed)).To(Succeed())
			typed.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: replicas}, "Frontend": {}}
			Expect(admin.Status().Update(ctx, typed)).To(Succeed())
		}

		It("passes as long as there are no pods, and again when there are none any more", func() {
			Expect(change(object, podGroup)).To(Succeed())
			Expect(change(object, kai)).To(Succeed())
			has(2)
			has(0)
			Expect(change(object, podGroup)).To(Succeed())
			Expect(change(object, none)).To(Succeed())
		})

		It("is refused while there are pods: added, changed and removed", func() {
			has(2)
			Expect(change(object, podGroup)).To(badRequest(key, text))
			has(0)
			Expect(change(object, podGroup)).To(Succeed())
			has(2)
			Expect(change(object, kai)).To(badRequest(key, text))
			Expect(change(object, none)).To(badRequest(key, text))
			Expect(change(object, none, client.DryRunAll)).To(badRequest(key, text))
			Expect(change(object, `{"metadata":{"labels":{"a":"b"}},"spec":{"services":{"Worker":{"replicas":0}}}}`)).To(Succeed(), "what else is changed, to scale to 0 above all")
		})

		It("is refused in the same breath with scaling to 0: the pods are there still", func() {
			has(2)
			Expect(change(object, `{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}},"spec":{"services":{"Worker":{"replicas":0}}}}`)).To(badRequest(key, text))
		})

		It("is refused when there is no such provider, pods or not", func() {
			Expect(change(object, `{"metadata":{"annotations":{"trellis.dev/provider":"Volcano"}}}`)).
				To(badRequest(key, `must be "auto" or "Gates" or "PodGroup" or "KAI" or "Grove"`))
		})
	})

	Context("whose ClusterTopology is gone", func() {
		BeforeEach(func() { Expect(admin.Delete(ctx, topology("gb200"))).To(Succeed()) })

		It("passes metadata, at generation 1 and later", func() {
			Expect(object.GetGeneration()).To(BeNumerically("==", 1))
			Expect(change(object, `{"metadata":{"annotations":{"a":"b"},"finalizers":["example.com/wait"]}}`)).To(Succeed())
			Expect(change(object, `{"spec":{"services":{"Worker":{"replicas":3}}}}`)).To(Succeed())
			Expect(change(object, `{"metadata":{"annotations":{"a":"c"},"finalizers":null}}`)).To(Succeed())
		})

		It("passes the status", func() {
			typed := &nvidiav1alpha1.DynamoGraphDeployment{}
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), typed)).To(Succeed())
			typed.Status.State = nvidiav1alpha1.StateFailed
			Expect(admin.Status().Update(ctx, typed)).To(Succeed())
		})

		It("passes the deletion, and the end of a finalizer during it", func() {
			Expect(change(object, `{"metadata":{"finalizers":["example.com/wait"]}}`)).To(Succeed())
			Expect(admin.Delete(ctx, object.DeepCopy())).To(Succeed())
			Expect(change(object, `{"metadata":{"labels":{"still":"here"}}}`)).To(Succeed())
			Expect(change(object, `{"metadata":{"finalizers":null}}`)).To(Succeed())
			Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))).To(BeTrue())
		})
	})

	Context("whose ClusterTopology changes", func() {
		const removed = `level "rack" is removed while in use; running pods stay where they are (default/llm)`
		withoutRack := func() *grovev1alpha1.ClusterTopology {
			ct := &grovev1alpha1.ClusterTopology{}
			Expect(admin.Get(ctx, client.ObjectKey{Name: "gb200"}, ct)).To(Succeed())
			ct.Spec.Levels = append(ct.Spec.Levels[:2], ct.Spec.Levels[3])
			return ct
		}

		It("warns the admin who takes a level away, and names the deployments", func() {
			Eventually(func() []string {
				return warned.during(func() { Expect(admin.Update(ctx, withoutRack(), client.DryRunAll)).To(Succeed()) })
			}).Should(ConsistOf(removed))
			Expect(warned.during(func() { Expect(admin.Update(ctx, withoutRack())).To(Succeed()) })).To(ConsistOf(removed))
		})

		It("warns the admin who deletes it", func() {
			Eventually(func() []string {
				return warned.during(func() { Expect(admin.Delete(ctx, topology("gb200"), client.DryRunAll)).To(Succeed()) })
			}).Should(ConsistOf(And(HavePrefix(`ClusterTopology "gb200" is in use`), HaveSuffix("(default/llm)"))))
		})

		It("says nothing when only the metadata changes", func() {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			Expect(warned.during(func() { Expect(admin.Patch(ctx, topology("gb200"), patch)).To(Succeed()) })).To(BeEmpty())
		})
	})
})

var _ = Describe("a ClusterTopology", func() {
	It("is refused with path and fix when it makes no sense", func() {
		bad := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
		bad.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: "a"}, {Domain: "rack", Key: "b"}}
		Expect(admin.Create(ctx, bad)).To(badRequest("spec.levels", "domain must be unique across all levels"))
		bad.Spec.Levels, bad.Spec.NodeSelector = bad.Spec.Levels[:1], map[string]string{"pool": "not a value!"}
		Expect(admin.Create(ctx, bad)).To(badRequest("spec.nodeSelector[pool]"))
	})
})
