// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

func gpuList(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// The first example of the contract: one constraint for the whole deployment, which every service inherits.
func TestDeploymentLevel(t *testing.T) {
	w := newWorld(t, "deployment-level", racks(2, 1, "a/r0", "b/r0", "b/r1")...)
	w.create(w.graphOf("my-llm", "zone", services{"VllmWorker": worker(4, 1, 1, ""), "Frontend": frontend(2)}))
	w.ready("my-llm")
	if got := w.domains("zone", w.all()...); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the deployment is in zones %v; only zone b holds all of it", got)
	}
	if len(w.all()) != 6 {
		t.Errorf("%d pods, want 6", len(w.all()))
	}
	w.hasCondition("my-llm", nvidiav1alpha1.ConditionTopologyLevelsAvailable, metav1.ConditionTrue, "AllTopologyLevelsAvailable",
		"All required topology levels are available in the cluster topology")
	w.hasCondition("my-llm", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced")
	dgd := w.dgd("my-llm")
	if dgd.Status.Placement == nil || dgd.Status.Placement.Domain != "b" {
		t.Errorf("status.placement = %+v, want domain b", dgd.Status.Placement)
	}
	if s := dgd.Status.Services["VllmWorker"]; s.ComponentKind != "ScalingGroup" || *s.ReadyReplicas != 4 || len(s.Placements) != 4 {
		t.Errorf("status.services[VllmWorker] = %+v", s)
	}
	get(w, &corev1.Service{}, w.name, "my-llm-frontend")
}

// The second example: only the multinode worker is packed, each replica in a rack of its own; the frontend is free and never gated.
func TestServiceLevelOnly(t *testing.T) {
	w := newWorld(t, "service-level", racks(4, 8, "a/r0", "a/r1", "b/r0")...)
	w.create(w.graphOf("my-llm", "", services{"VllmWorker": worker(2, 4, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("my-llm")
	for ordinal, pods := range w.replicasOf("VllmWorker") {
		if got := w.domains("rack", pods...); len(got) != 1 || len(pods) != 4 {
			t.Errorf("replica %d: %d pods in racks %v, want 4 in one", ordinal, len(pods), got)
		}
	}
	leader := get(w, &corev1.Pod{}, w.name, "my-llm-vllmworker-1-0")
	if leader.Spec.Hostname != leader.Name || leader.Spec.Subdomain == "" || leader.Labels["nvidia.com/dynamo-graph-deployment-name"] != "my-llm" {
		t.Errorf("leader: hostname %q, subdomain %q, labels %v", leader.Spec.Hostname, leader.Spec.Subdomain, leader.Labels)
	}
	for _, pods := range w.replicasOf("Frontend") {
		if len(pods[0].Spec.NodeSelector) > 0 {
			t.Errorf("the frontend has no constraint but is pinned to %v", pods[0].Spec.NodeSelector)
		}
	}
}

// The third example: the deployment in one zone, each replica of the worker in one rack of it.
func TestMixed(t *testing.T) {
	w := newWorld(t, "mixed", racks(4, 8, "a/r0", "b/r0", "b/r1")...)
	w.create(w.graphOf("my-llm", "zone", services{"VllmWorker": worker(2, 4, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("my-llm")
	if got := w.domains("zone", w.all()...); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the deployment is in zones %v; only zone b has two racks", got)
	}
	var where []string
	for _, pods := range w.replicasOf("VllmWorker") {
		where = append(where, w.domains("rack", pods...)...)
	}
	slices.Sort(where)
	if !slices.Equal(where, []string{"b/r0", "b/r1"}) {
		t.Errorf("the two replicas are in racks %v, want one in each of b/r0 and b/r1", where)
	}
}

// Rack values repeat between zones; a gang must never be spread over two racks of one name.
func TestEqualRackNames(t *testing.T) {
	w := newWorld(t, "equal-names", racks(2, 8, "a/r0", "b/r0", "c/r0")...)
	w.create(w.graphOf("twins", "", services{"Worker": worker(3, 2, 8, "rack")}))
	w.ready("twins")
	for ordinal, pods := range w.replicasOf("Worker") {
		if got := w.domains("rack", pods...); len(got) != 1 {
			t.Errorf("replica %d is spread over %v", ordinal, got)
		}
	}
	w.create(w.graphOf("too-big", "", services{"Worker": worker(1, 4, 1, "rack")}))
	w.hasCondition("too-big", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "4 pods", "in one rack", "of 4")
}

// All or nothing: no rack has four free hosts, so nothing of the gang starts, and the deployment says which rack came closest. It starts
// by itself once there is capacity, in each of the ways capacity can come.
func TestWaitsForRoom(t *testing.T) {
	ways := map[string]func(w *world, blocker *corev1.Pod){
		"pod-ends": func(w *world, blocker *corev1.Pod) {
			if err := w.c.Delete(w.t.Context(), blocker); err != nil {
				w.t.Fatal(err)
			}
		},
		"uncordon": func(w *world, _ *corev1.Pod) {
			node := get(w, &corev1.Node{}, "", w.node("a-r1-3"))
			if err := w.c.Patch(w.t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":null}}`))); err != nil {
				w.t.Fatal(err)
			}
		},
		"node-added": func(w *world, _ *corev1.Pod) { w.addHosts(host{zone: "a", rack: "r0", name: "a-r0-new", gpus: 8}) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "waits-"+name, racks(4, 8, "a/r0", "a/r1")...)
			blocker := w.occupy("other", "a-r0-1", 1)
			node := get(w, &corev1.Node{}, "", w.node("a-r1-3"))
			node.Spec.Unschedulable = true
			if err := w.c.Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			w.create(w.graphOf("g", "", services{"Worker": worker(1, 4, 8, "rack")}))
			w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity",
				"needs 4 pods x 8 nvidia.com/gpu in one rack", "3 of 4", "a/r")
			w.nothingReleased("Worker", 4)
			w.hasEvent("DynamoGraphDeployment", "g", "InsufficientCapacity", "3 of 4")
			w.hasEvent("Pod", "g-worker-0-0", "InsufficientCapacity", "3 of 4")
			way(w, blocker)
			w.ready("g")
			if got := w.domains("rack", w.all()...); len(got) != 1 {
				t.Errorf("the gang is spread over %v", got)
			}
		})
	}
}

// Enough GPUs in sum are not enough: zone a has them scattered over racks, so the graph goes to zone b.
func TestScatteredZoneIsNotChosen(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "scattered", append(racks(1, 8, "a/r0", "a/r1", "a/r2", "a/r3"), racks(2, 8, "b/r0")...)...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
	w.ready("g")
	if got := w.domains("rack", w.all()...); !slices.Equal(got, []string{"b/r0"}) {
		t.Errorf("the gang is in %v, want b/r0", got)
	}
}

// Look ahead: zone a holds the first replica of everything, tighter even, but only zone b holds all of it.
func TestLooksAhead(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "look-ahead", racks(2, 8, "a/r0", "b/r0", "b/r1", "b/r2")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack")}))
	w.ready("g")
	if got := w.domains("zone", w.all()...); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the graph is in %v, want b", got)
	}
}

// 4+4+8 GPUs on two hosts of 8: a scheduler that spreads the small ones would never fit the large one.
func TestMixedShapesBindAtOnce(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "mixed-shapes", racks(2, 8, "a/r0")...)
	w.create(w.graphOf("g", "rack", services{"Small": worker(2, 1, 4, ""), "Large": worker(1, 1, 8, "")}))
	w.ready("g")
	for _, pod := range w.all() {
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status != corev1.ConditionTrue {
				t.Errorf("pod %s: %s", pod.Name, cond.Message)
			}
		}
	}
	w.noEvent("Requeued")
}

// Only the zone is required, but the replica was planned into one rack of it, and there it goes: the scheduler, left alone, would spread
// it over the emptiest hosts of the zone.
func TestPlannedTightlyIsBoundTightly(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "tight", append(racks(4, 4, "a/r0"), racks(3, 4, "a/r1", "a/r2")...)...)
	w.occupy("other", "a-r1-0", 2)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 3, 2, "")}))
	w.ready("g")
	if got := w.domains("rack", w.all()...); len(got) != 1 {
		t.Errorf("the replica is spread over %v", got)
	}
}

// A single-node service with a rack of its own has all its replicas in one rack.
func TestSingleNodeServiceSharesItsDomain(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "single-node", racks(2, 4, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "zone", services{"Decode": worker(8, 1, 1, "rack"), "Prefill": worker(4, 1, 1, "rack")}))
	w.ready("g")
	for _, service := range []string{"Decode", "Prefill"} {
		var pods []corev1.Pod
		for _, replica := range w.replicasOf(service) {
			pods = append(pods, replica...)
		}
		if got := w.domains("rack", pods...); len(got) != 1 {
			t.Errorf("%s is spread over %v", service, got)
		}
	}
}

func (w *world) noEvent(reason string) {
	w.t.Helper()
	list := &corev1.EventList{}
	if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			w.t.Errorf("event %s", fmt.Sprint(list.Items[i].Message))
		}
	}
}
