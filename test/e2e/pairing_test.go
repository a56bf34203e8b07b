// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Prefill and decode replicas with a transfer policy", func() {
	It("share racks, wait where there is no partner, and open a rack together", func(ctx SpecContext) {
		w := newWorld(ctx, "pairing", racks(3, 8, "a/r0", "a/r1", "a/r2")...)
		prefill, decode := worker(2, 1, 8, ""), worker(2, 1, 8, "")
		prefill.SubComponentType, decode.SubComponentType = "prefill", "decode"
		graph := w.graphOf("g", "zone", services{"Prefill": prefill, "Decode": decode})
		graph.Spec.Experimental = w.transferPolicy("required")
		w.create(graph)
		w.ready("g")
		paired := func() {
			GinkgoHelper()
			for _, rack := range w.racksOf("Decode") {
				Expect(w.racksOf("Prefill")).To(ContainElement(rack), "a decode replica without prefill in its rack")
			}
		}
		paired()
		Expect(w.racksOf("Prefill")).To(ConsistOf(w.racksOf("Decode")), "as many of one as of the other in each rack")

		By("scaling decode out inside the racks in use")
		w.scale("g", "Decode", 4)
		w.ready("g")
		paired()
		w.scale("g", "Decode", 5)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "prefill alongside decode")

		By("opening a rack by a replica of each role")
		w.scale("g", "Prefill", 3)
		w.ready("g")
		paired()
		w.until("the status has the shares", func() error {
			p := w.dgd("g").Status.Placement
			if p == nil || ptr.Deref(p.DecodePaired, 0) != 100 || ptr.Deref(p.PrefillPaired, 0) != 100 {
				return fmt.Errorf("placement %+v", p)
			}
			return nil
		})

		By("scaling in where decode is in excess")
		w.scale("g", "Decode", 3)
		w.ready("g")
		paired()
		Expect(w.racksOf("Decode")).To(ConsistOf(w.racksOf("Prefill")), "one alongside each")
		w.notEvicted(ctx)
	}, SpecTimeout(suite.Timeout()))

	DescribeTable("of one node each, which only the policy places, share racks, also after an update in step",
		func(ctx SpecContext, way string) {
			w := newOperated(ctx, "pairing-alone", way, racks(4, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
			prefill, decode := worker(4, 1, 8, ""), worker(12, 1, 8, "")
			prefill.SubComponentType, decode.SubComponentType = "prefill", "decode"
			packed := frontend(1)
			packed.TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}
			graph := w.graphOf("g", "", services{"Prefill": prefill, "Decode": decode, "Frontend": packed})
			graph.Annotations = map[string]string{rollout.AnnotationSharedMaxUnavailable: "4", rollout.AnnotationSharedMaxSurge: "0"}
			graph.Spec.Experimental = w.transferPolicy(map[bool]string{true: "required", false: "preferred"}[ways[way]])
			w.create(graph)
			w.ready("g")
			share := func() {
				GinkgoHelper()
				all := []string{"a/r0", "a/r1", "a/r2", "a/r3"}
				Expect(w.racksOf("Prefill")).To(ConsistOf(all), "one prefill replica in each rack")
				Expect(w.racksOf("Decode")).To(ConsistOf(slices.Concat(all, all, all)), "three decode replicas in each rack")
				for _, pod := range append(w.of("Prefill"), w.of("Decode")...) {
					rack := get(w, &corev1.Node{}, "", pod.Spec.NodeName).Labels[rackKey]
					Expect(pod.Labels).To(HaveKeyWithValue("nvidia.com/dynamo-topology.rack", rack), "pod %s", pod.Name)
				}
			}
			share()
			w.updatePair(func() {})
			share()
			w.notEvicted(ctx)
		}, eachWay())
})

var _ = Describe("A drain of a rack with prefill and decode replicas", func() {
	// Each rack holds a replica of each role. The drained rack is replaced by the free one: both roles go there, so each has a partner again.
	for _, enforcement := range []string{"preferred", "required"} {
		It("moves both roles into one rack where the transfer policy is "+enforcement, func(ctx SpecContext) {
			w := newWorld(ctx, "pairing-drain-"+enforcement, racks(4, 8, "a/r0", "a/r1", "a/r2")...)
			prefill, decode := worker(2, 2, 8, "rack"), worker(2, 2, 8, "rack")
			prefill.SubComponentType, decode.SubComponentType = "prefill", "decode"
			graph := w.graphOf("g", "zone", services{"Prefill": prefill, "Decode": decode})
			graph.Spec.Experimental = w.transferPolicy(enforcement)
			w.create(graph)
			w.ready("g")
			used := w.racksOf("Prefill")
			Expect(used).To(ConsistOf(w.racksOf("Decode")), "one of each role in a rack")
			var drained []string
			others := map[types.UID]bool{}
			for _, pod := range w.all() {
				if rack := w.domains("rack", pod)[0]; rack == used[0] {
					drained = append(drained, pod.Spec.NodeName)
				} else {
					others[pod.UID] = true
				}
			}
			Expect(drained).To(HaveLen(4))
			w.kubectlTrellis(0, append([]string{"drain"}, drained...)...)
			w.ready("g")
			now := w.racksOf("Decode")
			Expect(now).NotTo(ContainElement(used[0]))
			Expect(w.racksOf("Prefill")).To(ConsistOf(now), "one of each role in a rack")
			Expect(w.uids()).To(haveAllOf(others), "pods of the other rack were replaced")
			w.notEvicted(ctx)
		}, SpecTimeout(suite.Timeout()))
	}
})

// transferPolicy is a kvTransferPolicy by the racks of the world.
func (w *world) transferPolicy(enforcement string) *nvidiav1alpha1.FreeObject {
	weight := ""
	if enforcement == string(nvidiav1beta1.KVTransferPreferred) {
		weight = `,"preferredWeight":0.5`
	}
	return &nvidiav1alpha1.FreeObject{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"kvTransferPolicy":{"clusterTopologyName":%q,"domain":"rack","enforcement":%q%s}}`, w.name, enforcement, weight)}}
}

// racksOf are the racks of the replicas of a component.
func (w *world) racksOf(component string) (all []string) {
	for _, pods := range w.replicasOf(component) {
		all = append(all, w.domains("rack", pods...)...)
	}
	return all
}
