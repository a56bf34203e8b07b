// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A change", func() {
	passing := map[string]string{
		"replicas":                `{"spec":{"services":{"Worker":{"replicas":5}}}}`,
		"replicas left out again": `{"spec":{"services":{"Worker":{"replicas":null}}}}`,
		"labels":                  `{"metadata":{"labels":{"a":"b"}}}`,
	}
	DescribeTable("passes without a warning, of", func(ctx SpecContext, patch string) {
		e := newEdited(ctx)
		e.wantWarnings(func() error { return e.change(patch) })
	}, suite.Entries(passing, SpecTimeout(suite.Timeout())))

	It("of nodeCount is warned of", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		e := newEdited(ctx)
		e.wantWarnings(func() error { return e.change(`{"spec":{"services":{"Worker":{"multinode":{"nodeCount":8}}}}}`) },
			"spec.services[Worker].multinode.nodeCount changes, so every replica is replaced; the Dynamo operator after 1.5 refuses such a change")
	})

	type refusal struct{ patch, path, text string }
	refused := map[string]refusal{
		"another profile":                  {`{"spec":{"topologyConstraint":{"topologyProfile":"h100"}}}`, "spec.topologyConstraint", "is immutable"},
		"no constraint":                    {`{"spec":{"topologyConstraint":null,"services":{"Worker":{"topologyConstraint":null}}}}`, "spec.topologyConstraint", "is immutable"},
		"a preferred domain":               {`{"spec":{"topologyConstraint":{"preferredPackDomain":"rack"}}}`, "spec.topologyConstraint", "is immutable"},
		"another constraint of a service":  {`{"spec":{"services":{"Worker":{"topologyConstraint":{"packDomain":"block"}}}}}`, "topologyConstraint", "is immutable"},
		"a constraint for another service": {`{"spec":{"services":{"Frontend":{"topologyConstraint":{"packDomain":"rack"}}}}}`, "topologyConstraint", "is immutable"},
		"a service less":                   {`{"spec":{"services":{"Frontend":null}}}`, "spec.services", "service topology is immutable"},
		"a service more":                   {`{"spec":{"services":{"Planner":{}}}}`, "spec.services", "service topology is immutable"},
		"single-node instead of multinode": {`{"spec":{"services":{"Worker":{"multinode":null}}}}`, "multinode", "cannot change node topology"},
		"a backend framework":              {`{"spec":{"backendFramework":"vllm"}}`, "spec.backendFramework", "is immutable"},
		"half a GPU":                       {`{"spec":{"services":{"Worker":{"resources":{"limits":{"gpu":"0.5"}}}}}}`, "spec.services[Worker].resources.limits.gpu", "must be a whole number"},
	}
	DescribeTable("is refused with path and fix, to", func(ctx SpecContext, tc refusal) {
		e := newEdited(ctx)
		e.wantRefused(e.change(tc.patch), tc.path, tc.text)
		e.wantRefused(e.change(tc.patch, client.DryRunAll), tc.path, tc.text)
	}, suite.Entries(refused, SpecTimeout(suite.Timeout())))

	Context("of the provider", func() {
		const (
			key      = "metadata.annotations[trellis.dev/provider]"
			text     = "the provider is immutable while the deployment has pods (service Worker has 2 replicas); scale all services to 0 first"
			podGroup = `{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}}}`
			kai      = `{"metadata":{"annotations":{"trellis.dev/provider":"KAI"}}}`
			none     = `{"metadata":{"annotations":{"trellis.dev/provider":null}}}`
		)

		It("passes while there are no pods, and again when there are none any more", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			Expect(e.change(podGroup)).To(Succeed())
			Expect(e.change(kai)).To(Succeed())
			e.has(2)
			e.has(0)
			Expect(e.change(podGroup)).To(Succeed())
			Expect(e.change(none)).To(Succeed())
		})

		It("is refused while there are pods: added, changed and removed", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			e.has(2)
			e.wantRefused(e.change(podGroup), key, text)
			e.has(0)
			Expect(e.change(podGroup)).To(Succeed())
			e.has(2)
			e.wantRefused(e.change(kai), key, text)
			e.wantRefused(e.change(none), key, text)
			e.wantRefused(e.change(none, client.DryRunAll), key, text)
			By("what else is changed passes, to scale to 0 above all")
			Expect(e.change(`{"metadata":{"labels":{"a":"b"}},"spec":{"services":{"Worker":{"replicas":0}}}}`)).To(Succeed())
		})

		It("is refused in the edit that scales to 0: the pods are still there", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			e.has(2)
			e.wantRefused(e.change(`{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}},"spec":{"services":{"Worker":{"replicas":0}}}}`), key, text)
		})

		It("is refused when there is no such provider, pods or not", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			e.wantRefused(e.change(`{"metadata":{"annotations":{"trellis.dev/provider":"Volcano"}}}`),
				key, `must be "auto" or "Gates" or "PodGroup" or "KAI" or "Grove"`)
		})
	})

	Context("without the ClusterTopology", func() {
		orphaned := func(ctx SpecContext) *edited {
			GinkgoHelper()
			e := newEdited(ctx)
			Expect(e.admin.Delete(ctx, topology("gb200"))).To(Succeed())
			return e
		}

		It("passes metadata, at generation 1 and later", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := orphaned(ctx)
			Expect(e.object.GetGeneration()).To(BeEquivalentTo(1))
			Expect(e.change(`{"metadata":{"annotations":{"a":"b"},"finalizers":["example.com/wait"]}}`)).To(Succeed())
			Expect(e.change(`{"spec":{"services":{"Worker":{"replicas":3}}}}`)).To(Succeed())
			Expect(e.change(`{"metadata":{"annotations":{"a":"c"},"finalizers":null}}`)).To(Succeed())
		})

		It("passes the status", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := orphaned(ctx)
			typed := &nvidiav1alpha1.DynamoGraphDeployment{}
			Expect(e.admin.Get(ctx, client.ObjectKeyFromObject(e.object), typed)).To(Succeed())
			typed.Status.State = nvidiav1alpha1.StateFailed
			Expect(e.admin.Status().Update(ctx, typed)).To(Succeed())
		})

		It("passes the deletion, and the end of a finalizer during it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := orphaned(ctx)
			Expect(e.change(`{"metadata":{"finalizers":["example.com/wait"]}}`)).To(Succeed())
			Expect(e.admin.Delete(ctx, e.object.DeepCopy())).To(Succeed())
			Expect(e.change(`{"metadata":{"labels":{"still":"here"}}}`)).To(Succeed())
			Expect(e.change(`{"metadata":{"finalizers":null}}`)).To(Succeed())
			e.wantGone(e.object)
		})
	})

	Context("of a ClusterTopology in use", func() {
		const (
			removed = `level "rack" is removed while in use; running pods stay where they are (default/llm)`
			deleted = `ClusterTopology "gb200" is in use; running pods stay, and gangs that need one of its levels wait until it is back (default/llm)`
		)

		It("warns the admin who removes a level, and names the deployments", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			withoutRack := func(opts ...client.UpdateOption) error {
				ct := topology("gb200")
				e.get(ct)
				ct.Spec.Levels = append(ct.Spec.Levels[:2], ct.Spec.Levels[3])
				return e.admin.Update(ctx, ct, opts...)
			}
			e.wantWarnings(func() error { return withoutRack(client.DryRunAll) }, removed)
			e.wantWarnings(func() error { return withoutRack() }, removed)
		})

		It("warns the admin who deletes it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			e.wantWarnings(func() error { return e.admin.Delete(ctx, topology("gb200"), client.DryRunAll) }, deleted)
		})

		It("says nothing when only the metadata changes", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			e := newEdited(ctx)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			e.wantWarnings(func() error { return e.admin.Patch(ctx, topology("gb200"), patch) })
		})
	})

	It("is refused with path and fix for a ClusterTopology, too", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		bad := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
		bad.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: "a"}, {Domain: "rack", Key: "b"}}
		s.wantRefused(s.tryCreate(bad), "spec.levels", "domain must be unique across all levels")
		bad.Spec.Levels, bad.Spec.NodeSelector = bad.Spec.Levels[:1], map[string]string{"pool": "not a value!"}
		s.wantRefused(s.tryCreate(bad), "spec.nodeSelector[pool]")
	})
})

// has writes to the status that Worker has so many replicas.
func (e *edited) has(replicas int32) {
	GinkgoHelper()
	typed := &nvidiav1alpha1.DynamoGraphDeployment{}
	Expect(e.admin.Get(e.ctx, client.ObjectKeyFromObject(e.object), typed)).To(Succeed())
	typed.Status.Services = map[string]nvidiav1alpha1.ServiceStatus{"Worker": {Replicas: replicas}, "Frontend": {}}
	Expect(e.admin.Status().Update(e.ctx, typed)).To(Succeed())
}
