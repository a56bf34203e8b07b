// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// plannedManifest has its components in an order that is not the names', with and without an adapter.
const plannedManifest = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: llm}
spec:
  topologyConstraint: {clusterTopologyName: planner, packDomain: zone}
  components:
  - name: VllmPrefillWorker
    type: prefill
    podTemplate: &gpus
      spec:
        containers:
        - {name: main, image: "example.com/vllm:1", resources: {limits: {nvidia.com/gpu: 8}}}
  - name: Frontend
    type: frontend
    podTemplate: &plain
      spec:
        containers:
        - {name: main, image: "example.com/frontend:1"}
  - name: VllmDecodeWorker
    type: decode
    replicas: 1
    scalingAdapter: {}
    multinode: {nodeCount: 2}
    topologyConstraint: {packDomain: rack}
    podTemplate: *gpus
  - name: Planner
    type: planner
    podTemplate: *plain
`

// The planner, with the account that Trellis makes for it and no right beyond those of its Role, scales two components up, down, to nothing
// and back: one by its adapter, one in the deployment.
func TestPlannerProtocol(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "planner", racks(4, 8, "a/r0", "a/r1")...)
	w.applyText(plannedManifest)
	p := w.planner("llm", w.accountConfig(plannersAccount))
	w.until("the account has its Role", func() error {
		_, err := p.graphs().List(t.Context(), metav1.ListOptions{})
		return err
	})
	p.stable("VllmDecodeWorker", 1)
	w.until("the adapter is there", func() error { return w.c.Get(t.Context(), key(w.name, "llm-vllmdecodeworker"), &scalingAdapter{}) })
	for _, n := range []int32{2, 0, 1} {
		if p.scale("VllmDecodeWorker", int(n)) {
			t.Error("VllmDecodeWorker has no adapter")
		}
		if !p.scale("VllmPrefillWorker", int(n)) {
			t.Error("VllmPrefillWorker has an adapter it did not ask for")
		}
		p.stable("VllmDecodeWorker", n)
		p.stable("VllmPrefillWorker", n)
		if decode, prefill := len(p.podsOf("VllmDecodeWorker")), len(p.podsOf("VllmPrefillWorker")); decode != 2*int(n) || prefill != int(n) {
			t.Errorf("%d and %d pods, want %d and %d", decode, prefill, 2*n, n)
		}
	}
	if u := p.list().Status.RollingUpdate; u != nil {
		t.Errorf("scaling is reported as the update %+v", u)
	}
	p.mustKeepItsPlace(t)
	p.mayDoNoMore(t)
	w.onePodPerReplica(t, p)
}

// mustKeepItsPlace: what the planner writes by index reaches the component that it read there or none, and never one that an adapter owns.
func (p *planner) mustKeepItsPlace(t *testing.T) {
	var names []string
	for _, c := range p.list().Spec.Components {
		names = append(names, c.Name)
	}
	if want := []string{"VllmPrefillWorker", "Frontend", "VllmDecodeWorker", "Planner"}; !slices.Equal(names, want) {
		t.Errorf("components are %v, want %v", names, want)
	}
	if err := p.patchAt(1, "VllmPrefillWorker", 5); !apierrors.IsInvalid(err) {
		t.Errorf("a patch at another component's index: %v", err)
	}
	p.scaleByIndex("VllmDecodeWorker", 2)
	if n := *p.get().Component("VllmDecodeWorker").Replicas; n != 1 {
		t.Errorf("the deployment's number of a component with an adapter became %d", n)
	}
}

// mayDoNoMore: these answers show that the requests before were not an administrator's.
func (p *planner) mayDoNoMore(t *testing.T) {
	if _, err := p.api.Resource(workerMetadata).Namespace(p.name).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("reading what workers publish: %v", err)
	}
	if err := p.graphs().Delete(t.Context(), p.dgd, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting the deployment: %v", err)
	}
	body := []byte(`{"spec":{"replicas":2}}`)
	_, err := p.api.Resource(plannedAdapters).Namespace(p.name).Patch(t.Context(), "llm-vllmdecodeworker", types.MergePatchType, body, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("patching an adapter itself: %v", err)
	}
}

// onePodPerReplica: an autoscaler that divides by pods finds one of each replica.
func (w *world) onePodPerReplica(t *testing.T, p *planner) {
	p.scale("VllmDecodeWorker", 2)
	p.stable("VllmDecodeWorker", 2)
	a := get(w, &scalingAdapter{}, w.name, "llm-vllmdecodeworker")
	if a.Status.LastScaleTime == nil || !meta.IsStatusConditionTrue(a.Status.Conditions, nvidiav1beta1.ConditionActive) {
		t.Errorf("the adapter's status is %+v", a.Status)
	}
	scale := &autoscalingv1.Scale{}
	if err := w.c.SubResource("scale").Get(t.Context(), a, scale); err != nil {
		t.Fatal(err)
	}
	pods, err := p.api.Resource(plannedPods).Namespace(w.name).List(t.Context(), metav1.ListOptions{LabelSelector: scale.Status.Selector})
	if err != nil || len(pods.Items) != 2 {
		t.Errorf("%q finds %d pods of 2 replicas (%v)", scale.Status.Selector, len(pods.Items), err)
	}
}

// A planner that asks while a user's update is on its way waits for the end of it.
func TestPlannerWaitsForAnUpdate(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "planner-update", racks(2, 8, "a/r0")...)
	w.applyText(strings.NewReplacer("clusterTopologyName: planner", "clusterTopologyName: planner-update", "    multinode: {nodeCount: 2}\n", "").Replace(plannedManifest))
	p := w.planner("llm", nil)
	p.stable("VllmPrefillWorker", 1)
	before := p.podsOf("VllmPrefillWorker")[0].GetUID()
	image := []byte(`[{"op": "replace", "path": "/spec/components/0/podTemplate/spec/containers/0/image", "value": "example.com/vllm:2"}]`)
	patched, err := p.graphs().Patch(t.Context(), "llm", types.JSONPatchType, image, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.unstable(read[nvidiav1beta1.DynamoGraphDeployment](t, patched), "VllmPrefillWorker", 1); err == nil {
		t.Error("the deployment that was just changed counts as stable")
	}
	p.stable("VllmPrefillWorker", 1)
	dgd := p.get()
	if u := dgd.Status.RollingUpdate; u == nil || u.Phase != nvidiav1beta1.RollingUpdateCompleted || !slices.Contains(u.UpdatedComponents, "VllmPrefillWorker") {
		t.Errorf("the update is %+v", u)
	}
	if pods := p.podsOf("VllmPrefillWorker"); len(pods) != 1 || pods[0].GetUID() == before {
		t.Errorf("the component counts as stable with %d pods, the old one among them", len(pods))
	}
}
