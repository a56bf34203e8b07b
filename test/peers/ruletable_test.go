// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

const (
	no, yes = metav1.ConditionFalse, metav1.ConditionTrue

	// whatKAIGets and whatGroveGets are a graph in one zone of replicas of two pods, each in one rack.
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
	mayLeave = "Worker: Grove chooses the zone of each replica after the first on its own, so they may leave the deployment's"
)

var rules = map[string]rule{
	"1 the graph is in one domain": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone",
		services: services{"Prefill": worker(2, 1, 8, ""), "Decode": worker(1, 2, 8, ""), "Frontend": frontend(1)},
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
		services: services{"Prefill": worker(1, 2, 8, ""), "Decode": worker(1, 1, 8, "")},
		kai: func(w *world) {
			w.is(placed, no, "InsufficientCapacity", "2 of 3")
			w.held("Prefill", 0, 2)
			w.held("Decode", 0, 1)
			w.untold()
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
		nodes: racks(2, 8, "a/r0", "a/r1"), services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
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
		nodes: racks(2, 4, "a/r0", "a/r1"), services: services{"Worker": worker(6, 1, 1, "rack")},
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
		nodes: racks(1, 8, "a/r0", "b/r0"), services: services{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.is(placed, no, "InsufficientCapacity", "in one rack", "1 of 2")
			w.held("Worker", 0, 2)
			w.addHosts(host{zone: "b", rack: "r0", name: "b-new", gpus: 8})
			w.in("Worker", 0, 2, "b/r0")
			w.topologyOfKAI("example.com/zone > example.com/rack > kubernetes.io/hostname")
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
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(2)},
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
		nodes: append(racks(1, 8, "a/r0"), racks(2, 8, "a/r1")...), level: "zone", preferred: "rack", services: services{"Worker": worker(2, 1, 8, "")},
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
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", preferred: "rack", services: services{"Worker": worker(1, 3, 8, "")},
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
		nodes: racks(2, 8, "a/r0", "a/r1"), services: services{"Worker": worker(1, 3, 8, "rack")},
		kai: func(w *world) {
			w.is(placed, no, "InsufficientCapacity", "2 of 3")
			w.held("Worker", 0, 3)
			w.untold()
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
		nodes: racks(2, 8, "a/r0"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
		kai: func(w *world) {
			w.tree(inZoneRacks1)
			w.in("Worker", 0, 2, "a/r0")
			w.is(placed, no, "InsufficientCapacity", "1 of 2 packed replicas have a place", "Worker-1")
			w.held("Worker", 1, 2)
			w.addHosts(racks(2, 8, "a/r1")...)
			w.tree(inZoneRacks2)
			w.in("Worker", 1, 2, "a/r1")
			w.serves()
		},
		grove: func(w *world) {
			w.set(groveZoneRacks2)
			w.groveWaits("worker", "no room", 1)
			w.is(placed, no, "WaitsForGrove", "1 of 2 replicas scheduled: no room")
			w.groveServes()
			w.serves()
		},
	},
	"6 look ahead": {
		nodes: racks(2, 8, "a/r0", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
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
		nodes: append(racks(4, 8, "a/r0"), racks(2, 8, "a/r1")...), services: services{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) { w.in("Worker", 0, 2, "a/r1") },
		grove: func(w *world) {
			w.documented("choosing looks ahead to all replicas, tightest fit", "Grove", "Grove's scheduler")
		},
	},
	"7 scale-out stays in the graph's domain": {
		nodes: append(racks(2, 8, "a/r0"), racks(2, 8, "b/r0", "b/r1", "b/r2")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
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
		nodes: append(racks(2, 8, "a/r0"), racks(3, 8, "a/r1")...), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
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
			w.documented("a replica that comes back returns to its domain", "Grove", "Grove decides")
		},
	},
	"7 a replica moves whole when its rack is full": {
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
			w.cordon("a-r0-0")
			w.replaced("Worker", 2, func() { w.free(&w.replica("Worker", 0)[0]) })
			w.in("Worker", 0, 2, "a/r1")
			w.tree(inZoneRacks1)
		},
		grove: func(w *world) {
			w.documented("a replica that comes back returns to its domain", "Grove", "Grove decides")
		},
	},
	"7 with all members gone the graph is free": {
		nodes: racks(2, 8, "a/r0", "b/r0"), level: "zone", services: services{"Worker": worker(1, 2, 8, "")},
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
		nodes: racks(2, 8, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
			before := w.replica("Worker", 0)
			w.withoutRacks()
			w.scale("Worker", 2)
			w.is(placed, no, "LevelGone", "Worker-1", "'rack'")
			w.held("Worker", 1, 2)
			w.tree(inZoneRacks1)
			w.topologyOfKAI("example.com/zone > kubernetes.io/hostname")
			w.is(nvidiav1alpha1.ConditionTopologyLevelsAvailable, no, "TopologyLevelsUnavailable", "'rack'")
			if now := w.replica("Worker", 0); len(now) != 2 || now[0].UID != before[0].UID || now[1].UID != before[1].UID {
				w.t.Error("a pod that ran before the level was lost is gone")
			}
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
			w.documented("a topology or level that disappears", "Grove", "Grove places new pods without it, so Trellis reports it at once")
		},
	},
	"9 room is counted per node": {
		nodes: append(racks(3, 7, "a/r0"), racks(1, 8, "b/r0")...), level: "zone", services: services{"Worker": worker(1, 1, 8, "")},
		kai:   func(w *world) { w.in("Worker", 0, 1, "b") },
		grove: func(w *world) { w.documented("room is counted per node", "Grove", "Grove's scheduler") },
	},
	"9 shapes of several sizes bind as planned": {
		nodes: racks(2, 8, "a/r0"), level: "rack", services: services{"Small": worker(2, 1, 4, ""), "Large": worker(1, 1, 8, "")},
		kai: func(w *world) {
			w.serves()
			hosts := map[string]bool{w.replica("Small", 0)[0].Spec.NodeName: true, w.replica("Small", 1)[0].Spec.NodeName: true}
			if large := w.replica("Large", 0)[0].Spec.NodeName; len(hosts) != 1 || hosts[large] {
				w.t.Errorf("the small ones are on %v, the large one on %s", hosts, large)
			}
			w.tree(`
g needs 2 in one rack
  g-large-all pods 1
  g-small-all pods 1`)
		},
		grove: func(w *world) { w.documented("room is counted per node", "Grove", "Grove's scheduler") },
	},
	"13 what cannot bind is taken back whole and planned again": {
		nodes: append(racks(2, 8, "a/r0"), racks(1, 8, "a/r1")...), services: services{"Worker": worker(1, 2, 8, "rack")},
		kai: func(w *world) {
			w.refuses = "volume is elsewhere"
			w.let("Worker", 0)
			w.is(placed, no, "SchedulerRefuses", "KAI: volume is elsewhere")
			w.replaced("Worker", 2, func() {})
			w.event("TakenBack", "could not be bound")
			w.refuses = ""
			w.in("Worker", 0, 2, "a/r0")
			w.serves()
		},
		grove: func(w *world) {
			w.documented("all or nothing when pods are bound", "Grove", "whole")
		},
	},
	"15 a rolling update stays where it is": {
		nodes: racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack")},
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

// withoutRacks takes the level rack out of the topology.
func (w *world) withoutRacks() {
	w.t.Helper()
	ct := &grovev1alpha1.ClusterTopology{}
	if err := typed.Get(w.t.Context(), ctrlclient.ObjectKey{Name: w.name}, ct); err != nil {
		w.t.Fatal(err)
	}
	without := ct.DeepCopy()
	without.Spec.Levels = slices.DeleteFunc(without.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == "rack" })
	if err := typed.Patch(w.t.Context(), without, ctrlclient.MergeFrom(ct)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cordon(host string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + host}}
	if err := typed.Patch(w.t.Context(), node, ctrlclient.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) image(service, image string) {
	w.t.Helper()
	w.patch(`{"spec":{"services":{%q:{"extraPodSpec":{"mainContainer":{"image":%q}}}}}}`, service, image)
}
