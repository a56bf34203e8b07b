// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Spread replicas", func() {
	// Zone a alone would hold all replicas, and is the tightest for the first.
	It("are in one rack each and over two zones, wait for the zone that has fewer, and return there", func(ctx SpecContext) {
		w := newWorld(ctx, "spread", racks(2, 8, "a/r0", "a/r1", "a/r2", "b/r0", "b/r1")...)
		taken := w.occupy("taken", "b-r1-0", 1)
		work := worker(2, 2, 8, "rack")
		work.TopologyConstraint.SpreadDomain = "zone"
		w.create(w.graphOf("g", "", services{"Worker": work}))
		w.ready("g")
		zones := func() (all []string) {
			for _, pods := range w.replicasOf("Worker") {
				Expect(pods).To(w.bePlacedInOne("rack"))
				all = append(all, w.domains("zone", pods...)...)
			}
			return all
		}
		Expect(zones()).To(ConsistOf("a", "b"))

		w.scale("g", "Worker", 3)
		w.ready("g")
		Expect(zones()).To(ConsistOf("a", "a", "b"), "one zone may have one more")
		w.scale("g", "Worker", 4)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity",
			"spread over zones, it goes to b, which has 1 replica where another has 2")
		Expect(w.c.Delete(ctx, taken)).To(Succeed())
		w.ready("g")
		Expect(zones()).To(ConsistOf("a", "a", "b", "b"))

		before := graphs.UIDs(w.replicasOf("Worker")[1])
		w.deletePod("g-worker-1-0")
		w.until("the lost replica is back", func() error {
			return graphs.AllNew(before, w.replicasOf("Worker")[1], 2)
		})
		w.ready("g")
		Expect(zones()).To(ConsistOf("a", "a", "b", "b"))
		w.notEvicted(ctx)
	}, SpecTimeout(suite.Timeout()))
})
