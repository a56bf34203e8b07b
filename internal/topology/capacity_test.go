// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// Two zones; what is free in the first lies on two racks in halves, the host without a rack counts in its zone only, cordoned and not ready
// hosts count nowhere, and a reservation is used.
func TestCapacity(t *testing.T) {
	c := NewCluster()
	eight := amounts{gpu: "8"}
	for name, labels := range map[string]map[string]string{
		"a1": at("a", "1"), "a2": at("a", "2"), "b1": at("b", "1"), "b2": at("b", ""), "cpu": at("", ""),
	} {
		resources := eight
		if name == "cpu" {
			resources = amounts{"cpu": "8"}
		}
		c.SetNode(makeNode(name, labels, resources))
	}
	c.SetNode(makeNode("cordoned", at("b", "1"), eight, func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	c.SetNode(makeNode("broken", at("b", "1"), eight, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }))
	c.SetPod(makePod("half", "a1", amounts{gpu: "4"}))
	c.Assume("reserved", "a2", ShapeOf(makePod("x", "", amounts{gpu: "5"})))
	c.SetPod(makePod("all", "b2", eight))

	capacity := c.CapacityByLevel(gpu, c.Tree(zoneRack, nil))
	want := CapacityByLevel{Sizes: []int64{1, 2, 4, 8}, Levels: []LevelCapacity{
		{Level: "cluster", Domains: 1, Capacity: 32, Free: 15, Largest: []int64{15, 14, 12, 8}, Gathered: []int64{15, 14, 12, 8}},
		{Level: "zone", Domains: 2, Capacity: 32, Free: 15, Largest: []int64{8, 8, 8, 8}, Gathered: []int64{15, 14, 12, 8}},
		{Level: "rack", Domains: 3, Unlabelled: 1, Capacity: 24, Free: 15, Largest: []int64{8, 8, 8, 8}, Gathered: []int64{8, 8, 8, 8}},
	}}
	if diff := cmp.Diff(want, capacity); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := capacity.Levels[1].Fragmentation(0); math.Abs(got-7.0/15) > 1e-9 {
		t.Errorf("zones are fragmented by %v, want 1 - 8/15", got)
	}
	if got := capacity.Levels[0].Fragmentation(3); got != 0 {
		t.Errorf("the cluster is fragmented by %v for whole hosts, want 0", got)
	}
	if none := c.CapacityByLevel("example.com/none", c.Tree(zoneRack, nil)); len(none.Levels) > 0 {
		t.Errorf("a resource that no node has: %v", none)
	}
}

// A level of one name in two topologies is one level: a node counts once, and the largest gang is that of either.
func TestCapacityOfTwoTrees(t *testing.T) {
	c := NewCluster()
	for i := range 4 {
		labels := map[string]string{"z": "z", "r": fmt.Sprint(i / 2), "row": "all", "pool": fmt.Sprint(i % 2)}
		c.SetNode(makeNode(fmt.Sprint("n", i), labels, amounts{gpu: "8"}))
	}
	capacity := c.CapacityByLevel(gpu, c.Tree(zoneRack, nil), c.Tree(Levels{{"rack", "row"}}, map[string]string{"pool": "1"}))
	want := []LevelCapacity{
		{Level: "cluster", Domains: 1, Capacity: 32, Free: 32, Largest: []int64{32, 32, 32, 32}, Gathered: []int64{32, 32, 32, 32}},
		{Level: "zone", Domains: 1, Capacity: 32, Free: 32, Largest: []int64{32, 32, 32, 32}, Gathered: []int64{32, 32, 32, 32}},
		{Level: "rack", Domains: 3, Capacity: 32, Free: 32, Largest: []int64{16, 16, 16, 16}, Gathered: []int64{16, 16, 16, 16}},
	}
	if diff := cmp.Diff(want, capacity.Levels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The largest gang of a level is what the views, which the planner asks, hold in the roomiest domain.
func TestCapacityIsWhatViewsCount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := NewCluster()
		for i := range rapid.IntRange(1, 12).Draw(rt, "nodes") {
			host := fmt.Sprint("n", i)
			zone, rack := rapid.SampledFrom([]string{"a", "b", ""}).Draw(rt, "zone"), rapid.SampledFrom([]string{"1", "2", ""}).Draw(rt, "rack")
			c.SetNode(makeNode(host, at(zone, rack), amounts{gpu: fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "gpus"))}))
			c.SetPod(makePod("on-"+host, host, amounts{gpu: fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "used"))}))
		}
		tree := c.Tree(zoneRack, nil)
		capacity := c.CapacityByLevel(gpu, tree)
		for i, size := range capacity.Sizes {
			view := tree.View(ShapeOf(makePod("x", "", amounts{gpu: fmt.Sprint(size)})))
			for _, level := range capacity.Levels {
				most, domains := int64(0), tree.Domains(zoneRack.Index(level.Level), Root)
				for _, d := range domains {
					most = max(most, int64(view.Fit(d))*size)
				}
				if level.Largest[i] != most || len(domains) != level.Domains {
					rt.Fatalf("%s, pods of %d: %d in %d domains, want %d in %d", level.Level, size, level.Largest[i], level.Domains, most, len(domains))
				}
				if f := level.Fragmentation(i); f < 0 || f > 1 {
					rt.Fatalf("%s, pods of %d: fragmentation %v", level.Level, size, f)
				}
			}
		}
	})
}

// A level with the name of the whole cluster is not counted on top of it.
func TestCapacityOfALevelNamedCluster(t *testing.T) {
	c := NewCluster()
	for i := range 4 {
		c.SetNode(makeNode(fmt.Sprint("n", i), at("z", fmt.Sprint(i/2)), amounts{gpu: "8"}))
	}
	capacity := c.CapacityByLevel(gpu, c.Tree(Levels{{"cluster", "z"}, {"rack", "r"}}, nil))
	want := []LevelCapacity{
		{Level: "cluster", Domains: 1, Capacity: 32, Free: 32, Largest: []int64{32, 32, 32, 32}, Gathered: []int64{32, 32, 32, 32}},
		{Level: "rack", Domains: 2, Capacity: 32, Free: 32, Largest: []int64{16, 16, 16, 16}, Gathered: []int64{16, 16, 16, 16}},
	}
	if diff := cmp.Diff(want, capacity.Levels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A resource that is counted in bytes has more small pods on two nodes than a tally holds: the number stays at its limit.
func TestCapacityOfBytes(t *testing.T) {
	c := NewCluster()
	for i := range 2 {
		c.SetNode(makeNode(fmt.Sprint("n", i), at("z", "r"), amounts{"memory": "64Gi"}))
	}
	capacity := c.CapacityByLevel("memory", c.Tree(zoneRack, nil))
	for _, level := range capacity.Levels {
		for i, size := range capacity.Sizes {
			if want := min(math.MaxInt32, 2*(64<<30/size)) * size; level.Largest[i] != want || level.Fragmentation(i) != 0 {
				t.Errorf("%s, pods of %d: the largest gang is %d and the fragmentation %v, want %d and 0", level.Level, size, level.Largest[i], level.Fragmentation(i), want)
			}
		}
	}
}

// BenchmarkCapacity is what one reading of the metrics costs the planner, which waits for it.
func BenchmarkCapacity(b *testing.B) {
	levels := Levels{{"zone", "z"}, {"block", "b"}, {"rack", "r"}, {"host", corev1.LabelHostname}}
	for _, nodes := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := NewCluster()
			for i := range nodes {
				host := fmt.Sprintf("n%06d", i)
				c.SetNode(makeNode(host, map[string]string{
					"z": fmt.Sprint(i / 4000), "b": fmt.Sprint(i / 400), "r": fmt.Sprint(i / 16), corev1.LabelHostname: host,
				}, amounts{gpu: "8"}))
			}
			tree := c.Tree(levels, nil)
			b.ReportAllocs()
			for b.Loop() {
				c.CapacityByLevel(gpu, tree)
			}
		})
	}
}
