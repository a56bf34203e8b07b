// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestGroveWithoutMultinode: Grove's webhook writes 15m0s where 15m was sent; a deployment of single-node services is made, serves and scales.
func TestGroveWithoutMultinode(t *testing.T) {
	w := newWorld(t, "plain")
	w.deploy(specs.Grove.Name, "zone", "", services{"Frontend": frontend(1)})
	w.set("g in one zone\n  frontend 1 (least 1)")
	w.groveServes()
	w.serves()
	w.scale("Frontend", 3)
	w.groveWants("frontend", 3)
	w.groveServes()
	w.serves()
}

// TestGroveTellsWhy: Grove's objects only count; why nothing is scheduled is read from the pods, where KAI writes it.
func TestGroveTellsWhy(t *testing.T) {
	w := newWorld(t, "why", racks(1, 8, "a/r0")...)
	w.deploy(specs.Grove.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	w.set(groveZoneRacks1)
	w.groveWaits("worker", "", 0)
	w.is(placed, no, "WaitsForGrove", "0 of 1 replicas scheduled")
	w.refuses = "node-group a.r0 can allocate only 1 of 2 required pods"
	w.grovePod("Worker", "worker-ldr", 0, "")
	w.grovePod("Worker", "worker-wkr", 0, "")
	w.is(placed, no, "WaitsForGrove", "0 of 1 replicas scheduled", "KAI: "+w.refuses)
	w.refuses = "OverLimit"
	w.is(placed, no, "WaitsForGrove", "KAI: OverLimit")
}

// TestGroveKeepsTheQueue: Grove replaces pods when the labels of their clique change, so that a set which was made with another default queue
// keeps it. One that the user names is written.
func TestGroveKeepsTheQueue(t *testing.T) {
	s, w := newScenario(t, "queued", specs.Grove.Name), probed(t)
	queue := func() string {
		t.Helper()
		if err := w.Apply(t.Context(), s.dgd, s.groups); err != nil {
			t.Fatal(err)
		}
		return grove.QueueOf(read[grove.PodCliqueSet](t, groveObject(t, "PodCliqueSet", "queued")))
	}
	for _, c := range []struct{ annotation, want string }{{"", "default-queue"}, {"dynamo", "dynamo"}, {"", "dynamo"}, {"team", "team"}} {
		s.dgd.Annotations[kai.AnnotationQueue] = c.annotation
		if got := queue(); got != c.want {
			t.Errorf("annotated %q: queue %q, want %q", c.annotation, got, c.want)
		}
	}
}

// TestGroveStrays: a pod that is recreated is placed for itself by KAI. Where that breaks what is required of a replica, of the first too,
// it is said at once, although Grove counts all replicas as scheduled and ready.
func TestGroveStrays(t *testing.T) {
	w := newWorld(t, "strays", racks(2, 8, "a/r0", "a/r1")...)
	w.deploy(specs.Grove.Name, "zone", "", services{"Worker": worker(1, 3, 8, "rack")})
	w.set(strings.ReplaceAll(groveZoneRacks1, "worker-wkr 1 (least 1)", "worker-wkr 2 (least 2)"))
	w.groveServes()
	leader := w.grovePod("Worker", "worker-ldr", 0, "a-r0-0")
	w.grovePod("Worker", "worker-wkr", 0, "a-r0-1")
	w.grovePod("Worker", "worker-wkr", 0, "a-r0-1")
	w.serves()
	w.cordon("a-r0-0")
	w.free(leader)
	w.grovePod("Worker", "worker-ldr", 0, "a-r1-0")
	w.is(placed, no, "OutsideReplicaDomain", "Worker-0 is in rack a/r0, but Grove placed 1 of its 3 pods in a/r1", "delete all pods of it at once")
	w.event("OutsideReplicaDomain", "Worker-0 is in rack a/r0")
	w.documented("required domain of a replica or service", "Grove", "not a pod that is recreated")
}
