// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A deployment that changes", func() {
	// All members gone, the graph is free to choose again: scaled to zero and back it leaves the zone that has become too small.
	It("is free to choose another zone after it was scaled to zero", func(ctx SpecContext) {
		w := newWorld(ctx, "to-zero", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "")}))
		w.ready("g")
		first := w.domains("zone", w.all()...)[0]
		w.scale("g", "Worker", 0)
		w.until("all pods are gone", func() error {
			if n := len(w.all()); n > 0 {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
		w.ready("g")
		w.occupy("other", first+"-r0-0", 1)
		w.scale("g", "Worker", 1)
		w.ready("g")
		Expect(w.domains("zone", w.all()...)).To(And(HaveLen(1), Not(ContainElement(first))), "the other zone has capacity")
	}, SpecTimeout(suite.Timeout()))

	// Deleted and created again under the same name before the first one's pods are gone: the new one waits for that and then comes up, with
	// no alarm raised.
	It("is recreated under its name before the pods of the first one are gone", func(ctx SpecContext) {
		w := newWorld(ctx, "recreated", racks(2, 8, "a/r0")...)
		dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")})
		w.create(dgd.DeepCopy())
		w.ready("g")
		before := w.uids()
		Expect(w.c.Delete(ctx, w.dgd("g"))).To(Succeed())
		w.create(dgd)
		w.until("the pods are new", func() error { return w.allNew(before, 2) })
		w.ready("g")
		w.noEvent("failed_to_reconcile_the_resources")
	}, SpecTimeout(suite.Timeout()))

	// A constraint stays as it was created, whichever version of the API asks for another.
	It("keeps the constraint that it was created with, in both versions of the API", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "immutable", racks(2, 8, "a/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "")}))
		w.ready("g")
		rack := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topologyConstraint":{"packDomain":"rack"}}}`))
		Expect(w.c.Patch(ctx, w.dgd("g"), rack)).To(MatchError(ContainSubstring("immutable")))
		hub := get(w, &nvidiav1beta1.DynamoGraphDeployment{}, w.name, "g")
		Expect(w.c.Patch(ctx, hub, rack)).To(MatchError(ContainSubstring("immutable")))
		Expect(w.dgd("g").Spec.TopologyConstraint.PackDomain).To(Equal("zone"))
	}, SpecTimeout(suite.Timeout()))

	// A change of the template replaces replica by replica, in place.
	It("is updated replica by replica, in place", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "rolling", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		before := w.uids()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`))
		Expect(w.c.Patch(ctx, w.dgd("g"), patch)).To(Succeed())
		w.until("all replicas are new", func() error { return w.allNew(before, 4) })
		w.ready("g")
		for _, pod := range w.all() {
			Expect(pod.Spec.Containers[0].Image).To(Equal("example.com/vllm:2"), "pod %s", pod.Name)
		}
		Expect(w.dgd("g").Status.Services["Worker"].UpdatedReplicas).To(BeEquivalentTo(2))
	}, SpecTimeout(suite.Timeout()))
})
