// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// sized is a deployment of a Decode of so many replicas of so many nodes, and of four pods of a Frontend.
func sized(name string, replicas, nodes int, withAdapter bool) *unstructured.Unstructured {
	GinkgoHelper()
	const manifest = "metadata: {name: %s}\nspec: {services: {Decode: {replicas: %d, multinode: {nodeCount: %d}, scalingAdapter: {enabled: %v}}, Frontend: {replicas: 4}}}"
	return readDeployment("", fmt.Sprintf(manifest, name, replicas, nodes, withAdapter))
}

// exceeds is the refusal of such a deployment.
func exceeds(path string, replicas, nodes int) string {
	return fmt.Sprintf("%s: Invalid value: %d: the graph asks for %d pods (replicas x nodeCount: Decode %d x %d, Frontend 4 x 1), more than the 1000 that one graph may have (--max-pods-per-graph); lower replicas",
		path, replicas, replicas*nodes+4, replicas, nodes)
}

// adapterOf is the scaling adapter of a component of a deployment.
func adapterOf(name, deployment, component string, replicas int32) *nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter {
	return &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: replicas, DGDRef: nvidiav1alpha1.ScaledService{Name: deployment, ServiceName: component},
		},
	}
}

// scale writes the scale of an adapter.
func (s *server) scale(adapter client.Object, n int32) error {
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	return s.admin.SubResource("scale").Update(s.ctx, adapter.DeepCopyObject().(client.Object), client.WithSubResourceBody(scale))
}

var _ = Describe("Pods of a graph and replicas", func() {
	It("are bounded in a deployment", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		s.wantRefused(s.tryCreate(sized("large", 125, 8, false)), exceeds("spec.services[Decode].replicas", 125, 8))
		within := &edited{s, sized("large", 124, 8, false)}
		s.create(within.object)
		s.wantRefused(within.change(`{"spec":{"services":{"Decode":{"replicas":125}}}}`), exceeds("spec.services[Decode].replicas", 125, 8))
		Expect(within.change(`{"spec":{"services":{"Decode":{"replicas":123}}}}`)).To(Succeed())
	})

	It("are bounded in a scaling adapter and its scale", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		s.create(sized("scaled", 1, 8, true))
		s.wantRefused(s.tryCreate(adapterOf("scaled-decode", "scaled", "Decode", 125)), exceeds("spec.replicas", 125, 8))
		adapter := adapterOf("scaled-decode", "scaled", "Decode", 1)
		s.create(adapter)
		s.wantRefused(s.scale(adapter, 125), exceeds("spec.replicas", 125, 8))
		s.wantRefused(s.scale(adapter, 1_000_000), "spec.replicas: Invalid value: 1000000: spec.replicas in body should be less than or equal to 65536")
		Expect(s.scale(adapter, 124)).To(Succeed())
		Expect(s.scale(adapter, 0)).To(Succeed())
		s.get(adapter)
		adapter.Spec.Replicas = 200
		s.wantRefused(s.admin.Update(ctx, adapter), exceeds("spec.replicas", 200, 8))
	})

	It("are not less than minAvailable", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		const tooFew = "spec.replicas: Invalid value: 1: must be at least 2, the minAvailable of %s Decode, or 0 to stop it; minAvailable is immutable"
		s := newServer(ctx)
		e := &edited{s, readDeployment("", "metadata: {name: floor}\nspec: {services: {Decode: {replicas: 3, minAvailable: 2, multinode: {nodeCount: 2}, scalingAdapter: {enabled: true}}, Other: {replicas: 2, minAvailable: 2}}}")}
		s.create(e.object)

		By("in the deployment")
		s.wantRefused(e.change(`{"spec":{"services":{"Other":{"replicas":1}}}}`), "spec.services[Other].minAvailable", "must be less than or equal to replicas unless replicas is 0")
		s.wantRefused(e.change(`{"spec":{"services":{"Other":{"minAvailable":1}}}}`), "spec.services[Other].minAvailable", "is immutable")
		Expect(e.change(`{"spec":{"services":{"Other":{"replicas":0}}}}`)).To(Succeed())

		By("in an adapter and in its scale")
		s.wantRefused(s.tryCreate(adapterOf("floor-decode", "floor", "Decode", 1)), fmt.Sprintf(tooFew, "service")) // the adapter is of v1alpha1
		adapter := adapterOf("floor-decode", "floor", "Decode", 3)
		s.create(adapter)
		s.wantRefused(s.scale(adapter, 1), fmt.Sprintf(tooFew, "component")) // a Scale is of neither version
		Expect(s.scale(adapter, 2)).To(Succeed())
		Expect(s.scale(adapter, 0)).To(Succeed())
	})

	It("are not bounded in an adapter that scales nothing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		newServer(ctx).create(adapterOf("idle", "absent", "x", 60000))
	})
})
