// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

var _ = Describe("The number of pods of a graph", func() {
	const manifest = "metadata: {name: %s}\nspec: {services: {Decode: {replicas: %d, multinode: {nodeCount: %d}, scalingAdapter: {enabled: %v}}, Frontend: {replicas: 4}}}"
	deployment := func(name string, replicas, nodes int, handedOver bool) client.Object {
		return graph("", fmt.Sprintf(manifest, name, replicas, nodes, handedOver))
	}
	exceeds := func(path string, replicas, nodes int) string {
		return fmt.Sprintf("%s: Invalid value: %d: the graph asks for %d pods (replicas x nodeCount: Decode %d x %d, Frontend 4 x 1), more than the 1000 that one graph may have (--max-pods-per-graph); lower replicas",
			path, replicas, replicas*nodes+4, replicas, nodes)
	}

	It("is bounded in a deployment", func() {
		Expect(admin.Create(ctx, deployment("large", 125, 8, false))).To(MatchError(ContainSubstring(exceeds("spec.services[Decode].replicas", 125, 8))))
		within := deployment("large", 124, 8, false)
		created(within)
		patch := func(replicas int) error {
			return admin.Patch(ctx, within, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"services":{"Decode":{"replicas":%d}}}}`, replicas)))
		}
		Expect(patch(125)).To(MatchError(ContainSubstring(exceeds("spec.services[Decode].replicas", 125, 8))))
		Expect(patch(123)).To(Succeed())
	})

	It("is bounded in a scaling adapter and in its scale", func() {
		created(deployment("scaled", 1, 8, true))
		adapter := &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scaled-decode"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 125, DGDRef: nvidiav1alpha1.ScaledService{Name: "scaled", ServiceName: "Decode"}},
		}
		Expect(admin.Create(ctx, adapter)).To(MatchError(ContainSubstring(exceeds("spec.replicas", 125, 8))))
		adapter.Spec.Replicas = 1
		created(adapter)
		scale := func(n int32) error {
			return admin.SubResource("scale").Update(ctx, adapter.DeepCopy(), client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}))
		}
		Expect(scale(125)).To(MatchError(ContainSubstring(exceeds("spec.replicas", 125, 8))))
		Expect(scale(1_000_000)).To(MatchError(ContainSubstring("spec.replicas: Invalid value: 1000000: spec.replicas in body should be less than or equal to 65536")))
		Expect(scale(124)).To(Succeed())
		Expect(scale(0)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(adapter), adapter)).To(Succeed())
		adapter.Spec.Replicas = 200
		Expect(admin.Update(ctx, adapter)).To(MatchError(ContainSubstring(exceeds("spec.replicas", 200, 8))))
	})

	It("is not less than minAvailable, in a deployment, an adapter and its scale", func() {
		const tooFew = "spec.replicas: Invalid value: 1: must be at least 2, the minAvailable of service Decode, or 0 to stop it; minAvailable is immutable"
		object := graph("", "metadata: {name: floor}\nspec: {services: {Decode: {replicas: 3, minAvailable: 2, multinode: {nodeCount: 2}, scalingAdapter: {enabled: true}}, Other: {replicas: 2, minAvailable: 2}}}")
		created(object)
		patch := func(text string) error {
			return admin.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(text)))
		}
		Expect(patch(`{"spec":{"services":{"Other":{"replicas":1}}}}`)).To(badRequest("spec.services[Other].minAvailable", "must be less than or equal to replicas unless replicas is 0"))
		Expect(patch(`{"spec":{"services":{"Other":{"minAvailable":1}}}}`)).To(badRequest("spec.services[Other].minAvailable", "is immutable"))
		Expect(patch(`{"spec":{"services":{"Other":{"replicas":0}}}}`)).To(Succeed())
		adapter := &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "floor-decode"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 1, DGDRef: nvidiav1alpha1.ScaledService{Name: "floor", ServiceName: "Decode"}},
		}
		Expect(admin.Create(ctx, adapter)).To(MatchError(ContainSubstring(tooFew)))
		adapter.Spec.Replicas = 3
		created(adapter)
		scale := func(n int32) error {
			return admin.SubResource("scale").Update(ctx, adapter.DeepCopy(), client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}))
		}
		Expect(scale(1)).To(MatchError(ContainSubstring(tooFew)))
		Expect(scale(2)).To(Succeed())
		Expect(scale(0)).To(Succeed())
	})

	It("is not asked of an adapter that scales nothing", func() {
		created(&nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "idle"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 60000, DGDRef: nvidiav1alpha1.ScaledService{Name: "absent", ServiceName: "x"}},
		})
	})
})
