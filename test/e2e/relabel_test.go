// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Labels that change under running pods", func() {
	// The rack of one of two hosts is relabelled, then its zone, and then the labels return. The pods stay, and the status follows: places, domain and score
	// are those of the labels, and Placed names the replica.
	It("are followed by places, domain and score, and Placed names the replica", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "relabelled", racks(2, 8, "a/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		w.isAt("g", "a/r0", "a", 1)
		running := w.all()

		w.relabel("a-r0-1", "a", "r9")
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeOutsideReplicaDomain, "Worker-0 has 1 of 2 pods outside rack a/r0, in a/r9")
		w.isAt("g", "a", "a", 0.75)
		said, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(said, gang.CodeOutsideReplicaDomain, "Worker-0 has 1 of 2 pods outside rack a/r0")
		said, _ = w.kubectlTrellis(0, "tree", "dgd/g")
		w.says(said, "r9", "Worker-0 has 1 of 2 pods outside rack a/r0")

		w.relabel("a-r0-1", "b", "r9")
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeOutsideGraphDomain, "Worker-0 has 1 of 2 pods outside the deployment's zone a, in b")
		w.isAt("g", "", "a", 0.5)

		w.relabel("a-r0-0", "b", "r9")
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeOutsideGraphDomain, "Worker-0 has 2 of 2 pods outside the deployment's zone a, in b")
		w.isAt("g", "b/r9", "b", 1)

		w.relabel("a-r0-0", "a", "r0")
		w.relabel("a-r0-1", "a", "r0")
		w.hasCondition("g", placed, metav1.ConditionTrue, "AllReplicasPlaced")
		w.isAt("g", "a/r0", "a", 1)
		Expect(slices.EqualFunc(w.all(), running, func(a, b corev1.Pod) bool { return a.UID == b.UID })).To(BeTrue(), "the pods are others")
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("Gates that a user removes", func() {
	// No rack holds the replica. Without their gates its pods are bound in two zones, and Placed names the replica.
	It("leave a replica in two zones, and Placed names it", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "ungated", racks(1, 8, "a/r0", "b/r1")...)
		here := worker(1, 2, 8, "rack")
		here.ExtraPodSpec.PodSpec = &corev1.PodSpec{NodeSelector: map[string]string{poolKey: w.name}}
		w.create(w.graphOf("g", "", services{"Worker": here}))
		w.hasCondition("g", placed, metav1.ConditionFalse, "NeverFits", "no rack has 2 hosts")
		for _, pod := range w.all() {
			w.must(w.c.Patch(ctx, &pod, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`))))
		}
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeOutsideReplicaDomain, "Worker-0 has 1 of 2 pods outside rack ")
		Expect(w.domains("zone", w.all()...)).To(ConsistOf("a", "b"))
		said, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(said, gang.CodeOutsideReplicaDomain, "Worker-0 has 1 of 2 pods outside rack ")
		said, _ = w.kubectlTrellis(0, "tree", "dgd/g")
		w.says(said, "Worker-0 has 1 of 2 pods outside rack ")
	}, SpecTimeout(suite.Timeout()))
})

// relabel changes the zone and the rack of a host.
func (w *world) relabel(host, zone, rack string) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{zoneKey: zone, rackKey: rack}}})
	w.must(err)
	w.must(w.c.Patch(w.t.Context(), get(w, &corev1.Node{}, "", w.node(host)), client.RawPatch(types.MergePatchType, patch)))
}

// isAt waits until the status of a graph shows the place of its first replica, "" for none, its domain and its score.
func (w *world) isAt(name, place, domain string, score float64) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s is at %q in %s, score %v", name, place, domain, score), func() error {
		status := w.dgd(name).Status
		placed := ""
		for _, s := range status.Services {
			for _, p := range s.Placements {
				placed = p.Domain
			}
		}
		if p := status.Placement; placed != place || p == nil || p.Domain != domain || p.Score == nil || *p.Score != score {
			return fmt.Errorf("it is at %q, placement %+v", placed, status.Placement)
		}
		return nil
	})
}
