// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	. "github.com/onsi/gomega"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

var running = map[string]rule{
	"7 scale-out stays in the graph's domain": {
		nodes: append(racks(2, 8, "a/r0"), racks(2, 8, "b/r0", "b/r1", "b/r2")...), level: "zone", components: components{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.scale("Worker", 2)
			w.is(placed, no, "InsufficientCapacity", "Worker-1")
			w.held("Worker", 1, 2)
			w.tree(inZoneRacks1)
			w.addHosts(racks(2, 8, "a/r1")...)
			w.in("Worker", 1, 2, "a/r1")
			w.tree(inZoneRacks2)
			w.serves()
		},
		grove: func(w *world) {
			w.set(groveZoneRacks1)
			w.groveServes()
			w.serves()
			w.scale("Worker", 2)
			w.set(groveZoneRacks2)
			w.groveWants("worker", 2)
			w.groveServes()
			w.is(placed, yes, "AllReplicasPlaced", mayLeave)
			w.grovePod("Worker", "worker-ldr", 0, "a-r0-0")
			w.grovePod("Worker", "worker-ldr", 1, "b-r1-0")
			w.is(placed, no, "OutsideGraphDomain", "the deployment is in zone a, but Grove placed Worker-1 in b")
			w.documented("later replicas stay in the graph's domain", "Grove", "no: ")
		},
	},
	"7 a lost member brings the replica back where it was": {
		nodes: append(racks(2, 8, "a/r0"), racks(3, 8, "a/r1")...), level: "zone", components: components{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
			w.replaced("Worker", 2, func() { w.free(&w.replica("Worker", 0)[1]) })
			w.in("Worker", 0, 2, "a/r0")
			w.tree(`
g needs 2 in one zone
  g-frontend-all pods 1
  g-worker-all needs 1
    g-worker-0 pods 2 in one rack`)
			w.serves()
		},
		grove: func(w *world) {
			w.documented("a recreated replica returns to its domain", "Grove", "Grove decides")
		},
	},
	"7 a replica moves whole when its rack is full": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", components: components{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
			w.cordon("a-r0-0")
			w.replaced("Worker", 2, func() { w.free(&w.replica("Worker", 0)[0]) })
			w.in("Worker", 0, 2, "a/r1")
			w.tree(inZoneRacks1)
		},
		grove: func(w *world) {
			w.documented("a recreated replica returns to its domain", "Grove", "Grove decides")
		},
	},
	"7 with all members gone the graph is free": {
		nodes: racks(2, 8, "a/r0", "b/r0"), level: "zone", components: components{"Worker": worker(1, 2, 8, "")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a")
			w.scale("Worker", 0)
			w.gone("Worker")
			w.serves()
			w.cordon("a-r0-0")
			w.scale("Worker", 1)
			w.in("Worker", 0, 2, "b")
			w.serves()
		},
		grove: func(w *world) {
			w.set(`
g in one zone
  worker 1 (least 1)
    worker-ldr 1 (least 1)
    worker-wkr 1 (least 1)`)
			w.groveServes()
			w.serves()
			w.scale("Worker", 0)
			w.groveWants("worker", 0)
			w.groveServes()
			w.is(placed, yes, "AllReplicasPlaced", "Worker: Grove starts one replica and then scales it to 0")
			w.scale("Worker", 1)
			w.groveWants("worker", 1)
			w.documented("with no pods left the graph may go elsewhere", "Grove", "Grove decides")
		},
	},
	"8 a lost level: what runs stays, what needs it waits": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", components: components{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
			before := w.replica("Worker", 0)
			w.withoutRacks()
			w.scale("Worker", 2)
			w.is(placed, no, "LevelGone", "Worker-1", "'rack'")
			w.held("Worker", 1, 2)
			w.tree(inZoneRacks1)
			if w.sets == nil {
				w.topologyOfKAI("example.com/zone > kubernetes.io/hostname")
			}
			w.is(nvidiav1alpha1.ConditionTopologyLevelsAvailable, no, "TopologyLevelsUnavailable", "'rack'")
			Expect(graphs.UIDs(w.replica("Worker", 0))).To(Equal(graphs.UIDs(before)), "the pods that ran before the level was lost")
		},
		grove: func(w *world) {
			w.set(groveZoneRacks1)
			w.groveServes()
			w.serves()
			w.is(nvidiav1alpha1.ConditionTopologyLevelsAvailable, yes, "AllTopologyLevelsAvailable")
			w.withoutRacks()
			w.binding("zone=example.com/zone > host=kubernetes.io/hostname")
			w.is(nvidiav1alpha1.ConditionTopologyLevelsAvailable, no, "TopologyLevelsUnavailable", "'rack' is no longer available in the cluster topology")
			w.groveSays("True", "ClusterTopologyLevelsUnavailable", false)
			w.is(placed, no, "TopologyLevelsUnavailable", "Grove: ClusterTopologyLevelsUnavailable: in Grove's words; pods placed from now on are not constrained")
			w.set(groveZoneRacks1)
			w.documented("a topology or level that disappears", "Grove", "Grove places new pods without the constraint, so Trellis reports the loss immediately")
		},
	},
	"9 capacity is counted per node": {
		nodes: append(racks(3, 7, "a/r0"), racks(1, 8, "b/r0")...), level: "zone", components: components{"Worker": worker(1, 1, 8, "")},
		kai:   func(w *world) { w.in("Worker", 0, 1, "b") },
		grove: func(w *world) { w.documented("capacity is counted per node", "Grove", "Grove's scheduler") },
	},
	"9 shapes of several sizes bind as planned": {
		nodes: racks(2, 8, "a/r0"), level: "rack", components: components{"Small": worker(2, 1, 4, ""), "Large": worker(1, 1, 8, "")},
		kai: func(w *world) {
			w.serves()
			hosts := map[string]bool{w.replica("Small", 0)[0].Spec.NodeName: true, w.replica("Small", 1)[0].Spec.NodeName: true}
			Expect(hosts).To(HaveLen(1), "the hosts of the small ones")
			Expect(hosts).NotTo(HaveKey(w.replica("Large", 0)[0].Spec.NodeName), "the host of the large one")
			w.tree(`
g needs 2 in one rack
  g-large-all pods 1
  g-small-all pods 1`)
		},
		grove: func(w *world) { w.documented("capacity is counted per node", "Grove", "Grove's scheduler") },
	},
	"13 what cannot bind is requeued whole and planned again": {
		nodes: append(racks(2, 8, "a/r0"), racks(1, 8, "a/r1")...), components: components{"Worker": worker(1, 2, 8, "rack")}, waits: true,
		kai: func(w *world) {
			w.refuses = "volume is elsewhere"
			w.untilReleased("Worker", 0)
			if w.sets == nil { // Gates just evicts it
				w.is(placed, no, "SchedulerRefuses", "KAI: volume is elsewhere")
			}
			w.replaced("Worker", 2, func() {})
			w.event("Requeued", "could not be bound")
			w.refuses = ""
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
		},
		grove: func(w *world) {
			w.documented("all or nothing when pods are bound", "Grove", "as a unit")
		},
	},
	"15 a rolling update stays where it is": {
		nodes: racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1"), level: "zone", components: components{"Worker": worker(2, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.in("Worker", 1, 2, "a/r1")
			w.serves()
			w.replaced("Worker", 4, func() { w.image("Worker", "example.com/vllm:2") })
			w.in("Worker", 0, 2, "a/r0")
			w.in("Worker", 1, 2, "a/r1")
			w.tree(inZoneRacks2)
			w.serves()
		},
		grove: func(w *world) {
			w.set(groveZoneRacks2)
			w.groveServes()
			w.serves()
			w.image("Worker", "example.com/vllm:2")
			w.groveHasImage("worker-ldr", "example.com/vllm:2")
			w.is(nvidiav1alpha1.ConditionReady, no, "rolling_update_in_progress", "desired=2, updated=0")
			w.groveSays("False", "AllClusterTopologyLevelsAvailable", true)
			w.groveCounts("", func(_ string, wanted int64) (int64, int64, int64) { return 1, wanted, 1 })
			w.is(nvidiav1alpha1.ConditionRolledOut, no, "RollingOut", "Worker: 1 of 2 replicas are of the current revision, 1 serve in all")
			w.groveServes()
			w.serves()
			w.set(groveZoneRacks2)
			w.documented("a rolling update, a restart", "Grove", "Grove replaces")
		},
	},
}
