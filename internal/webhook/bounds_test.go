// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// sized is a deployment of a Decode of so many replicas of so many nodes, and of four pods of a Frontend.
func sized(t *testing.T, name string, replicas, nodes int, withAdapter bool) *unstructured.Unstructured {
	t.Helper()
	const manifest = "metadata: {name: %s}\nspec: {services: {Decode: {replicas: %d, multinode: {nodeCount: %d}, scalingAdapter: {enabled: %v}}, Frontend: {replicas: 4}}}"
	return readDeployment(t, "", fmt.Sprintf(manifest, name, replicas, nodes, withAdapter))
}

// exceeds is the refusal of such a deployment.
func exceeds(path string, replicas, nodes int) string {
	return fmt.Sprintf("%s: Invalid value: %d: the graph asks for %d pods (replicas x nodeCount: Decode %d x %d, Frontend 4 x 1), more than the 1000 that one graph may have (--max-pods-per-graph); lower replicas",
		path, replicas, replicas*nodes+4, replicas, nodes)
}

// adapterOf is the scaling adapter of a service of a deployment.
func adapterOf(name, deployment, service string, replicas int32) *nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter {
	return &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: replicas, DGDRef: nvidiav1alpha1.ScaledService{Name: deployment, ServiceName: service},
		},
	}
}

// scale writes the scale of an adapter.
func (s *server) scale(adapter client.Object, n int32) error {
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	return s.admin.SubResource("scale").Update(s.t.Context(), adapter.DeepCopyObject().(client.Object), client.WithSubResourceBody(scale))
}

func TestPodsOfAGraphAreBoundedInADeployment(t *testing.T) {
	s := newServer(t)
	s.wantRefused(s.tryCreate(sized(t, "large", 125, 8, false)), exceeds("spec.services[Decode].replicas", 125, 8))
	within := &edited{s, sized(t, "large", 124, 8, false)}
	s.create(within.object)
	s.wantRefused(within.change(`{"spec":{"services":{"Decode":{"replicas":125}}}}`), exceeds("spec.services[Decode].replicas", 125, 8))
	s.must(within.change(`{"spec":{"services":{"Decode":{"replicas":123}}}}`))
}

func TestPodsOfAGraphAreBoundedInAScalingAdapterAndItsScale(t *testing.T) {
	s := newServer(t)
	s.create(sized(t, "scaled", 1, 8, true))
	s.wantRefused(s.tryCreate(adapterOf("scaled-decode", "scaled", "Decode", 125)), exceeds("spec.replicas", 125, 8))
	adapter := adapterOf("scaled-decode", "scaled", "Decode", 1)
	s.create(adapter)
	s.wantRefused(s.scale(adapter, 125), exceeds("spec.replicas", 125, 8))
	s.wantRefused(s.scale(adapter, 1_000_000), "spec.replicas: Invalid value: 1000000: spec.replicas in body should be less than or equal to 65536")
	s.must(s.scale(adapter, 124))
	s.must(s.scale(adapter, 0))
	s.get(adapter)
	adapter.Spec.Replicas = 200
	s.wantRefused(s.admin.Update(t.Context(), adapter), exceeds("spec.replicas", 200, 8))
}

func TestReplicasAreNotLessThanMinAvailable(t *testing.T) {
	const tooFew = "spec.replicas: Invalid value: 1: must be at least 2, the minAvailable of service Decode, or 0 to stop it; minAvailable is immutable"
	s := newServer(t)
	e := &edited{s, readDeployment(t, "", "metadata: {name: floor}\nspec: {services: {Decode: {replicas: 3, minAvailable: 2, multinode: {nodeCount: 2}, scalingAdapter: {enabled: true}}, Other: {replicas: 2, minAvailable: 2}}}")}
	s.create(e.object)

	t.Log("in the deployment")
	s.wantRefused(e.change(`{"spec":{"services":{"Other":{"replicas":1}}}}`), "spec.services[Other].minAvailable", "must be less than or equal to replicas unless replicas is 0")
	s.wantRefused(e.change(`{"spec":{"services":{"Other":{"minAvailable":1}}}}`), "spec.services[Other].minAvailable", "is immutable")
	s.must(e.change(`{"spec":{"services":{"Other":{"replicas":0}}}}`))

	t.Log("in an adapter and in its scale")
	s.wantRefused(s.tryCreate(adapterOf("floor-decode", "floor", "Decode", 1)), tooFew)
	adapter := adapterOf("floor-decode", "floor", "Decode", 3)
	s.create(adapter)
	s.wantRefused(s.scale(adapter, 1), tooFew)
	s.must(s.scale(adapter, 2))
	s.must(s.scale(adapter, 0))
}

func TestAnAdapterThatScalesNothingIsNotBounded(t *testing.T) {
	newServer(t).create(adapterOf("idle", "absent", "x", 60000))
}
