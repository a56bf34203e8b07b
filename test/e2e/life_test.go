// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A running graph", func() {
	// A replica that is added later stays in the graph's zone or waits, explained, although another zone is empty.
	It("is scaled out in its zone or waits there, though another zone is empty", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "scale-out", racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1")...)
		blocker := w.occupy("other", "b-r0-0", 8)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("rack", "b/r1"))
		w.scale("g", "Worker", 2)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "Worker-1", "in one rack")
		Expect(w.c.Delete(ctx, blocker)).To(Succeed())
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("zone", "b"))
	}, SpecTimeout(suite.Timeout()))

	// A pod of a multinode replica is deleted: the replica returns whole, in the same rack, though another one has become as good.
	It("gets a replica that lost a pod back whole, in the same rack", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "lost-member", racks(3, 8, "a/r0", "a/r1")...)
		blocker := w.occupy("other", "a-r0-0", 8)
		other := w.occupy("other-2", "a-r0-1", 8)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("rack", "a/r1"))
		for _, pod := range []*corev1.Pod{blocker, other} {
			Expect(w.c.Delete(ctx, pod)).To(Succeed())
		}
		before := w.uids()
		w.deletePod("g-worker-0-1")
		w.until("the replica is recreated", func() error { return w.allNew(before, 2) })
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("rack", "a/r1"))
	}, SpecTimeout(suite.Timeout()))

	// The rack is too small for the replica to return, as a host of it is cordoned: the replica moves as a unit.
	It("has a replica moved as a unit when its rack has become too small", func(ctx SpecContext) {
		w := newWorld(ctx, "moves", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		first := w.domains("rack", w.all()...)
		pod := w.all()[0]
		node := get(w, &corev1.Node{}, "", pod.Spec.NodeName)
		Expect(w.c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
		before := w.uids()
		w.deletePod(pod.Name)
		w.until("the replica is recreated", func() error { return w.allNew(before, 2) })
		w.ready("g")
		now := w.domains("rack", w.all()...)
		Expect(now).To(And(HaveLen(1), Not(Equal(first))), "all of the replica is in the other rack")
		w.hasEventOf(corev1.EventTypeNormal, "DynamoGraphDeployment", "g", scheduler.EventMoved,
			fmt.Sprintf("Worker-0 moves as a unit from %s to %s: needs 2 pods x 8 nvidia.com/gpu in %s; it holds 1 of 2 (1 host cordoned)", first[0], now[0], first[0]))
	}, SpecTimeout(suite.Timeout()))

	// A node goes away with all its pods: the replica that had a pod there returns whole elsewhere.
	It("gets the replica on a deleted node back whole, elsewhere", func(ctx SpecContext) {
		w := newWorld(ctx, "node-deleted", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		before := w.uids()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.all()[1].Spec.NodeName}}
		Expect(w.c.Delete(ctx, node)).To(Succeed())
		w.until("the replica is recreated", func() error { return w.allNew(before, 2) })
		w.ready("g")
		Expect(w.all()).To(w.bePlacedInOne("rack"))
	}, SpecTimeout(suite.Timeout()))

	// A level is removed from the topology, the topology deleted, and restored: what runs continues, nothing is placed unconstrained
	// meanwhile, and all of it is reported.
	It("continues when its topology loses a level or is deleted, and both are reported", suite.Core, func(ctx SpecContext) {
		const levels = nvidiav1alpha1.ConditionTopologyLevelsAvailable
		w := newWorld(ctx, "level-lost", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		before := w.uids()

		topology := get(w, &grovev1alpha1.ClusterTopology{}, "", w.name)
		without := topology.DeepCopy()
		without.Spec.Levels = slices.DeleteFunc(without.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == "rack" })
		Expect(w.c.Patch(ctx, without, client.MergeFrom(topology))).To(Succeed())
		w.hasCondition("g", levels, metav1.ConditionFalse, "TopologyLevelsUnavailable", "Topology level 'rack' is no longer available in the cluster topology")
		w.hasEvent("DynamoGraphDeployment", "g", "TopologyLevelsUnavailable", "'rack'")
		w.ready("g")
		w.scale("g", "Worker", 2)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "LevelGone", "Worker-1", "'rack'")
		w.scale("g", "Frontend", 2) // it only needs the zone, which the graph still holds
		w.until("the new frontend runs", func() error {
			if n := len(w.replicasOf("Frontend")); n != 2 {
				return fmt.Errorf("%d frontends", n)
			}
			for _, pods := range w.replicasOf("Frontend") {
				if pods[0].Spec.NodeName == "" {
					return fmt.Errorf("%s is not bound", pods[0].Name)
				}
			}
			return nil
		})

		Expect(w.c.Delete(ctx, without)).To(Succeed())
		w.hasCondition("g", levels, metav1.ConditionFalse, "TopologyDefinitionNotFound", "level-lost")
		w.hasEvent("DynamoGraphDeployment", "g", "TopologyDefinitionNotFound", "not found")
		Expect(w.uids()).To(haveAllOf(before), "a pod that ran before the level was lost is gone")
		w.create(w.topology())
		w.hasCondition("g", levels, metav1.ConditionTrue, "AllTopologyLevelsAvailable")
		w.ready("g")
		for ordinal, pods := range w.replicasOf("Worker") {
			Expect(pods).To(w.bePlacedInOne("rack"), "replica %d", ordinal)
		}
	}, SpecTimeout(suite.Timeout()))

	// Others took the capacity between release and binding. The gang is requeued whole, bound members included, and starts once there
	// is capacity, in one rack. A gang that fills hosts of a large rack has these named in its pods, and finds others of the rack after it was requeued.
	It("is requeued whole when others take its capacity between release and binding", func(ctx SpecContext) {
		w := newWorld(ctx, "take-back", racks(2, 8, "a/r0")...)
		large := newWorld(ctx, "take-back-large", append(racks(21, 8, "n/r0"), racks(43, 1, "n/r1")...)...)
		Expect(w.cluster.StopComponent(ctx, "kube-scheduler")).To(Succeed())
		started := false
		start := func() {
			if !started {
				started = true
				Expect(w.cluster.StartComponent(ctx, "kube-scheduler")).To(Succeed())
			}
		}
		defer start()
		for _, w := range []*world{w, large} {
			w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
			w.until("the gang is released", func() error {
				if w.dgd("g").Status.Conditions == nil || !meta.IsStatusConditionTrue(w.dgd("g").Status.Conditions, nvidiav1alpha1.ConditionPlaced) {
					return fmt.Errorf("not yet")
				}
				return nil
			})
		}
		thief := w.occupy("thief", "a-r0-1", 8)
		var hosts []string
		large.until("the pods in the large rack name two hosts", func() error {
			if hosts = namedHosts(large.all()); len(hosts) != 2 {
				return fmt.Errorf("they may go to %v", hosts)
			}
			return nil
		})
		large.occupy("thief", strings.TrimPrefix(hosts[0], large.node("")), 8)
		start()
		w.hasEvent("DynamoGraphDeployment", "g", "Requeued", "could not be bound")
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "1 of 2")
		w.nothingReleased("Worker", 2)
		Expect(w.c.Delete(ctx, thief)).To(Succeed())
		w.ready("g")

		large.hasEvent("DynamoGraphDeployment", "g", "Requeued", "could not be bound")
		large.ready("g")
		Expect(namedHosts(large.all())).To(And(HaveLen(2), Not(ContainElement(hosts[0]))), "the hosts in the large rack after the pods were requeued")
	}, SpecTimeout(suite.Timeout()))

	// Two graphs race for the last rack: one gets it whole, the other waits, explained, and gets it afterwards.
	It("has the last rack whole, and the graph that races for it waits", func(ctx SpecContext) {
		w := newWorld(ctx, "race", racks(4, 8, "a/r0")...)
		for _, name := range []string{"one", "two"} {
			w.create(w.graphOf(name, "", services{"Worker": worker(1, 3, 8, "rack")}))
		}
		w.until("one is Ready and the other explained", func() error {
			ready, waiting := 0, 0
			for _, name := range []string{"one", "two"} {
				conditions := w.dgd(name).Status.Conditions
				if meta.IsStatusConditionTrue(conditions, nvidiav1alpha1.ConditionReady) {
					ready++
				}
				if placed := meta.FindStatusCondition(conditions, nvidiav1alpha1.ConditionPlaced); placed != nil && placed.Reason == "InsufficientCapacity" {
					waiting++
				}
			}
			if ready != 1 || waiting != 1 {
				return fmt.Errorf("%d ready, %d waiting", ready, waiting)
			}
			return nil
		})
		winner, loser := "one", "two"
		if !meta.IsStatusConditionTrue(w.dgd(winner).Status.Conditions, nvidiav1alpha1.ConditionReady) {
			winner, loser = loser, winner
		}
		Expect(w.c.Delete(ctx, w.dgd(winner))).To(Succeed())
		w.ready(loser)
	}, SpecTimeout(suite.Timeout()))
})

// namedHosts are the nodes that pods may be bound to by their names.
func namedHosts(pods []corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
			continue
		}
		for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				names = append(names, field.Values...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *world) uids() map[types.UID]bool {
	w.t.Helper()
	return graphs.UIDs(w.all())
}

// allNew: there are want pods, and none of those before.
func (w *world) allNew(before map[types.UID]bool, want int) error {
	w.t.Helper()
	return graphs.AllNew(before, w.all(), want)
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}); err != nil {
		w.t.Fatal(err)
	}
}
