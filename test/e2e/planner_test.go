// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
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

var _ = Describe("The Dynamo planner", func() {
	// The planner, with the account that Trellis makes for it and no right beyond those of its Role, scales two components up, down, to nothing
	// and back: one by its adapter, one in the deployment.
	It("scales two components by its protocol, with the rights of its own account", func(ctx SpecContext) {
		w := newWorld(ctx, "planner", racks(4, 8, "a/r0", "a/r1")...)
		w.applyText(plannedManifest)
		p := w.planner("llm", w.accountConfig(plannersAccount))
		w.until("the account has its Role", func() error {
			_, err := p.graphs().List(ctx, metav1.ListOptions{})
			return err
		})
		p.stable("VllmDecodeWorker", 1)
		w.until("the adapter is there", func() error { return w.c.Get(ctx, key(w.name, "llm-vllmdecodeworker"), &scalingAdapter{}) })
		for _, n := range []int32{2, 0, 1} {
			Expect(p.scale("VllmDecodeWorker", int(n))).To(BeFalse(), "VllmDecodeWorker has an adapter")
			Expect(p.scale("VllmPrefillWorker", int(n))).To(BeTrue(), "VllmPrefillWorker did not ask for an adapter")
			p.stable("VllmDecodeWorker", n)
			p.stable("VllmPrefillWorker", n)
			Expect(p.podsOf("VllmDecodeWorker")).To(HaveLen(2 * int(n)))
			Expect(p.podsOf("VllmPrefillWorker")).To(HaveLen(int(n)))
		}
		Expect(p.list().Status.RollingUpdate).To(BeNil(), "scaling is no update")
		p.mustKeepItsPlace()
		p.mayDoNoMore()
		w.onePodPerReplica(p)
	}, SpecTimeout(suite.Timeout()))

	// A planner that asks while a user's update is on its way waits for the end of it.
	It("waits for the end of an update that is on its way", func(ctx SpecContext) {
		w := newWorld(ctx, "planner-update", racks(2, 8, "a/r0")...)
		w.applyText(strings.NewReplacer("clusterTopologyName: planner", "clusterTopologyName: planner-update", "    multinode: {nodeCount: 2}\n", "").Replace(plannedManifest))
		p := w.planner("llm", nil)
		p.stable("VllmPrefillWorker", 1)
		before := p.podsOf("VllmPrefillWorker")[0].GetUID()
		image := []byte(`[{"op": "replace", "path": "/spec/components/0/podTemplate/spec/containers/0/image", "value": "example.com/vllm:2"}]`)
		patched, err := p.graphs().Patch(ctx, "llm", types.JSONPatchType, image, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		changed := read[nvidiav1beta1.DynamoGraphDeployment](w.t, patched)
		Expect(p.unstable(changed, "VllmPrefillWorker", 1)).To(HaveOccurred(), "the deployment that was just changed counts as stable")
		p.stable("VllmPrefillWorker", 1)
		update := p.get().Status.RollingUpdate
		Expect(update).NotTo(BeNil())
		Expect(update.Phase).To(Equal(nvidiav1beta1.RollingUpdateCompleted))
		Expect(update.UpdatedComponents).To(ContainElement("VllmPrefillWorker"))
		pods := p.podsOf("VllmPrefillWorker")
		Expect(pods).To(HaveLen(1))
		Expect(pods[0].GetUID()).NotTo(Equal(before), "the component counts as stable with its old pod")
	}, SpecTimeout(suite.Timeout()))
})

// mustKeepItsPlace: what the planner writes by index reaches the component that it read there or none, and never one that an adapter owns.
func (p *planner) mustKeepItsPlace() {
	GinkgoHelper()
	var names []string
	for _, c := range p.list().Spec.Components {
		names = append(names, c.Name)
	}
	Expect(names).To(Equal([]string{"VllmPrefillWorker", "Frontend", "VllmDecodeWorker", "Planner"}))
	Expect(p.patchAt(1, "VllmPrefillWorker", 5)).To(Satisfy(apierrors.IsInvalid), "a patch at another component's index")
	p.scaleByIndex("VllmDecodeWorker", 2)
	Expect(p.get().Component("VllmDecodeWorker").Replicas).To(HaveValue(BeEquivalentTo(1)), "the deployment's number of a component with an adapter")
}

// mayDoNoMore: these answers show that the requests before were not an administrator's.
func (p *planner) mayDoNoMore() {
	GinkgoHelper()
	ctx := p.t.Context()
	_, err := p.api.Resource(workerMetadata).Namespace(p.name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred(), "reading what workers publish")
	Expect(p.graphs().Delete(ctx, p.dgd, metav1.DeleteOptions{})).To(Satisfy(apierrors.IsForbidden), "deleting the deployment")
	body := []byte(`{"spec":{"replicas":2}}`)
	_, err = p.api.Resource(plannedAdapters).Namespace(p.name).Patch(ctx, "llm-vllmdecodeworker", types.MergePatchType, body, metav1.PatchOptions{})
	Expect(err).To(Satisfy(apierrors.IsForbidden), "patching an adapter itself")
}

// onePodPerReplica: an autoscaler that divides by pods finds one of each replica.
func (w *world) onePodPerReplica(p *planner) {
	GinkgoHelper()
	p.scale("VllmDecodeWorker", 2)
	p.stable("VllmDecodeWorker", 2)
	a := get(w, &scalingAdapter{}, w.name, "llm-vllmdecodeworker")
	Expect(a.Status.LastScaleTime).NotTo(BeNil())
	Expect(meta.IsStatusConditionTrue(a.Status.Conditions, nvidiav1beta1.ConditionActive)).To(BeTrue(), "the adapter's conditions: %+v", a.Status.Conditions)
	scale := &autoscalingv1.Scale{}
	Expect(w.c.SubResource("scale").Get(w.t.Context(), a, scale)).To(Succeed())
	pods, err := p.api.Resource(plannedPods).Namespace(w.name).List(w.t.Context(), metav1.ListOptions{LabelSelector: scale.Status.Selector})
	Expect(err).NotTo(HaveOccurred())
	Expect(pods.Items).To(HaveLen(2), "the pods of 2 replicas that %q finds", scale.Status.Selector)
}
