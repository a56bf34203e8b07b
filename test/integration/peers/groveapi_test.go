// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// What Grove's API does: its webhook writes 15m0s where 15m was sent, its objects only count, it replaces pods when the labels of their clique change,
// and a pod that is recreated is placed on its own.
var _ = Describe("Under Grove's API", labelGrove, func() {
	It("a deployment of single-node services is made, serves and scales", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "plain")
		w.deploy(specs.Grove.Name, "zone", "", components{"Frontend": frontend(1)})
		w.set("g in one zone\n  frontend 1 (least 1)")
		w.groveServes()
		w.serves()
		w.scale("Frontend", 3)
		w.groveWants("frontend", 3)
		w.groveServes()
		w.serves()
	})

	It("why nothing is scheduled is read from the pods, where KAI writes it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "why", racks(1, 8, "a/r0")...)
		w.deploy(specs.Grove.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
		w.set(groveZoneRacks1)
		w.groveWaits("worker", "", 0)
		w.is(placed, no, "WaitsForGrove", "0 of 1 replicas scheduled")
		w.refuses = "node-group a.r0 can allocate only 1 of 2 required pods"
		w.grovePod("Worker", "worker-ldr", 0, "")
		w.grovePod("Worker", "worker-wkr", 0, "")
		w.is(placed, no, "WaitsForGrove", "0 of 1 replicas scheduled", "KAI: "+w.refuses)
		w.refuses = "OverLimit"
		w.is(placed, no, "WaitsForGrove", "KAI: OverLimit")
	})

	It("a set keeps the default queue it was made with, and a queue that the user names is written", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s, w := newScenario(ctx, "queued", specs.Grove.Name), probed(ctx)
		queue := func() string {
			GinkgoHelper()
			Expect(w.Apply(ctx, s.dgd, s.groups)).To(Succeed())
			return grove.QueueOf(read[grove.PodCliqueSet](groveObject(ctx, "PodCliqueSet", "queued")))
		}
		for _, c := range []struct{ annotation, want string }{{"", "default-queue"}, {"dynamo", "dynamo"}, {"", "dynamo"}, {"team", "team"}} {
			s.dgd.Annotations[kai.AnnotationQueue] = c.annotation
			Expect(queue()).To(Equal(c.want), "annotated %q", c.annotation)
		}
	})

	It("a recreated pod that leaves its replica's domain is reported, though Grove counts it as ready", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "strays", racks(2, 8, "a/r0", "a/r1")...)
		w.deploy(specs.Grove.Name, "zone", "", components{"Worker": worker(1, 3, 8, "rack")})
		w.set(strings.ReplaceAll(groveZoneRacks1, "worker-wkr 1 (least 1)", "worker-wkr 2 (least 2)"))
		w.groveServes()
		leader := w.grovePod("Worker", "worker-ldr", 0, "a-r0-0")
		w.grovePod("Worker", "worker-wkr", 0, "a-r0-1")
		w.grovePod("Worker", "worker-wkr", 0, "a-r0-1")
		w.serves()
		w.cordon("a-r0-0")
		w.free(leader)
		w.grovePod("Worker", "worker-ldr", 0, "a-r1-0")
		w.is(placed, no, "OutsideReplicaDomain", "Worker-0 is in rack a/r0, but Grove placed 1 of its 3 pods in a/r1", "delete all of its pods together")
		w.event("OutsideReplicaDomain", "Worker-0 is in rack a/r0")
		w.documented("required domain of a replica or component", "Grove", "not for a recreated pod")
	})
})
