// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	no, yes = metav1.ConditionFalse, metav1.ConditionTrue

	// What is written for KAI and Grove of a graph in one zone, of one or two replicas of two pods, each in one rack.
	inZoneRacks1 = `
g needs 1 in one zone
  g-worker-all needs 1
    g-worker-0 pods 2 in one rack`
	inZoneRacks2 = inZoneRacks1 + `
    g-worker-1 pods 2 in one rack`
	groveZoneRacks1 = `
g in one zone
  worker 1 (least 1) in one rack
    worker-ldr 1 (least 1)
    worker-wkr 1 (least 1)`
	groveZoneRacks2 = `
g in one zone
  worker 2 (least 1) in one rack
    worker-ldr 1 (least 1)
    worker-wkr 1 (least 1)`
	mayLeave = "Worker: Grove chooses the zone of each replica after the first on its own, so it may differ from the deployment's"
)

// choosing are the rules about where a graph goes first; running those about what happens to it later.
var choosing = map[string]rule{
	"1 the graph is in one domain": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone",
		components: components{"Prefill": worker(2, 1, 8, ""), "Decode": worker(1, 2, 8, ""), "Frontend": frontend(1)},
		kai: func(w *world) {
			w.tree(`
g needs 3 in one zone
  g-decode-all needs 1
    g-decode-0 pods 2
  g-frontend-all pods 1
  g-prefill-all pods 1`)
			w.in("Decode", 0, 2, "b")
			w.in("Prefill", 0, 1, "b")
			w.in("Prefill", 1, 1, "b")
			w.in("Frontend", 0, 1, "b")
			w.serves()
		},
		grove: func(w *world) {
			w.set(`
g in one zone
  decode 1 (least 1)
    decode-ldr 1 (least 1)
    decode-wkr 1 (least 1)
  frontend 1 (least 1)
  prefill 2 (least 1)`)
			w.groveServes()
			w.serves()
		},
	},
	"1 the graph fits into no domain": {
		nodes: racks(2, 8, "a/r0", "b/r0"), level: "zone",
		components: components{"Prefill": worker(1, 2, 8, ""), "Decode": worker(1, 1, 8, "")},
		kai: func(w *world) {
			w.is(placed, no, "NeverFits", "no zone has 3 hosts: the largest has 2")
			w.held("Prefill", 0, 2)
			w.held("Decode", 0, 1)
			w.expectNothing()
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.in("Prefill", 0, 2, "b")
			w.in("Decode", 0, 1, "b")
			w.serves()
		},
		grove: func(w *world) {
			w.set(`
g in one zone
  prefill 1 (least 1)
    prefill-ldr 1 (least 1)
    prefill-wkr 1 (least 1)
  decode 1 (least 1)`)
			w.groveWaits("decode", "no zone takes all 3 pods", 0)
			w.is(placed, no, "WaitsForGrove", "PodClique "+w.name+"-0-decode: 0 of 1 replicas scheduled: no zone takes all 3 pods")
			w.groveServes()
			w.serves()
		},
	},
	"2 a multinode replica is in one domain, another may be in another": {
		nodes: racks(2, 8, "a/r0", "a/r1"), components: components{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
		kai: func(w *world) {
			w.tree(`
g needs 1
  g-worker-all needs 1
    g-worker-0 pods 2 in one rack
    g-worker-1 pods 2 in one rack`)
			w.in("Worker", 0, 2, "a/r0")
			w.in("Worker", 1, 2, "a/r1")
			w.serves()
		},
		grove: func(w *world) {
			w.set(`
g
  worker 2 (least 1) in one rack
    worker-ldr 1 (least 1)
    worker-wkr 1 (least 1)
  frontend 1 (least 1)`)
			w.groveServes()
			w.serves()
		},
	},
	"2 a single-node service is in one domain with all replicas": {
		nodes: racks(2, 4, "a/r0", "a/r1"), components: components{"Worker": worker(6, 1, 1, "rack")},
		kai: func(w *world) {
			w.tree(`
g needs 1
  g-worker-all pods 1 in one rack`)
			for ordinal := range int32(6) {
				w.in("Worker", ordinal, 1, "a/r0")
			}
			w.serves()
		},
		grove: func(w *world) {
			w.set(`
g
  worker 6 (least 1) in one rack`)
			w.groveServes()
			w.serves()
		},
	},
	"2 racks of one name in two zones are two racks": {
		nodes: racks(1, 8, "a/r0", "b/r0"), components: components{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.is(placed, no, "NeverFits", "no rack has 2 hosts: the largest has 1", "in one rack")
			w.held("Worker", 0, 2)
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.in("Worker", 0, 2, "b/r0")
			if w.sets == nil {
				w.topologyOfKAI("example.com/zone > example.com/rack > kubernetes.io/hostname")
			}
		},
		grove: func(w *world) {
			w.set(`
g
  worker 1 (least 1) in one rack
    worker-ldr 1 (least 1)
    worker-wkr 1 (least 1)`)
			w.binding("zone=example.com/zone > rack=example.com/rack > host=kubernetes.io/hostname")
			w.documented("racks of one name in two zones are two", "Grove", "yes")
		},
	},
	"2 units lie inside the graph's domain": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", components: components{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(2)},
		kai: func(w *world) {
			w.tree(`
g needs 2 in one zone
  g-frontend-all pods 1
  g-worker-all needs 1
    g-worker-0 pods 2 in one rack
    g-worker-1 pods 2 in one rack`)
			w.in("Worker", 0, 2, "b/r0")
			w.in("Worker", 1, 2, "b/r1")
			w.in("Frontend", 0, 1, "b")
			w.in("Frontend", 1, 1, "b")
			w.serves()
		},
		grove: func(w *world) {
			w.set(groveZoneRacks2 + `
  frontend 2 (least 1)`)
			w.groveServes()
			w.is(placed, yes, "AllReplicasPlaced", mayLeave)
		},
	},
	"4 preferred is reached": {
		nodes: append(racks(1, 8, "a/r0"), racks(2, 8, "a/r1")...), level: "zone", preferred: "rack", components: components{"Worker": worker(2, 1, 8, "")},
		kai: func(w *world) {
			w.tree(`
g needs 1 in one zone, rack first
  g-worker-all pods 1`)
			w.in("Worker", 0, 1, "a/r1")
			w.in("Worker", 1, 1, "a/r1")
		},
		grove: func(w *world) {
			w.set(`
g in one zone, rack first
  worker 2 (least 1)`)
		},
	},
	"4 preferred is climbed from": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", preferred: "rack", components: components{"Worker": worker(1, 3, 8, "")},
		kai: func(w *world) {
			w.tree(`
g needs 1 in one zone, rack first
  g-worker-all needs 1
    g-worker-0 pods 3`)
			w.in("Worker", 0, 3, "a")
		},
		grove: func(w *world) {
			w.set(`
g in one zone, rack first
  worker 1 (least 1)
    worker-ldr 1 (least 1)
    worker-wkr 2 (least 2)`)
		},
	},
	"5 a gang starts whole or not at all": {
		nodes: racks(2, 8, "a/r0", "a/r1"), components: components{"Worker": worker(1, 3, 8, "rack")},
		kai: func(w *world) {
			w.is(placed, no, "NeverFits", "no rack has 3 hosts: the largest has 2")
			w.held("Worker", 0, 3)
			w.expectNothing()
			w.addHosts(host{zone: "a", rack: "r1", name: "a-new", gpus: 8})
			w.tree(`
g needs 1
  g-worker-all needs 1
    g-worker-0 pods 3 in one rack`)
			w.in("Worker", 0, 3, "a/r1")
		},
		grove: func(w *world) {
			w.set(`
g
  worker 1 (least 1) in one rack
    worker-ldr 1 (least 1)
    worker-wkr 2 (least 2)`)
			w.groveWaits("worker", "2 of 3", 0)
			w.is(placed, no, "WaitsForGrove", "PodCliqueScalingGroup "+w.name+"-0-worker: 0 of 1 replicas scheduled: 2 of 3")
			w.groveServes()
			w.serves()
		},
	},
	"5 further replicas come as they fit": {
		nodes: racks(2, 8, "a/r0"), level: "zone", components: components{"Worker": worker(2, 2, 8, "rack")},
		kai: func(w *world) {
			w.tree(inZoneRacks1)
			w.in("Worker", 0, 2, "a/r0")
			w.is(placed, no, "InsufficientCapacity", "1 of 2 packed replicas are placed", "Worker-1")
			w.held("Worker", 1, 2)
			w.addHosts(racks(2, 8, "a/r1")...)
			w.tree(inZoneRacks2)
			w.in("Worker", 1, 2, "a/r1")
			w.serves()
		},
		grove: func(w *world) {
			w.set(groveZoneRacks2)
			w.groveWaits("worker", "no capacity", 1)
			w.is(placed, no, "WaitsForGrove", "1 of 2 replicas scheduled: no capacity")
			w.groveServes()
			w.serves()
		},
	},
	"6 look ahead": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", components: components{"Worker": worker(2, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "b/r0")
			w.in("Worker", 1, 2, "b/r1")
			w.tree(inZoneRacks2)
		},
		grove: func(w *world) {
			w.set(groveZoneRacks2)
			w.documented("choosing looks ahead to all replicas, tightest fit", "Grove", "Grove's scheduler")
		},
	},
	"6 tightest fit": {
		nodes: append(racks(4, 8, "a/r0"), racks(2, 8, "a/r1")...), components: components{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) { w.in("Worker", 0, 2, "a/r1") },
		grove: func(w *world) {
			w.documented("choosing looks ahead to all replicas, tightest fit", "Grove", "Grove's scheduler")
		},
	},
}
