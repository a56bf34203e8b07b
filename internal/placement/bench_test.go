// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/topology"
)

var benchLevels = levels("zone", "block", "rack")

// hall makes a cluster of 8-GPU hosts, perRack to a rack, 25 racks to a block, 10 blocks to a zone.
func hall(nodes, perRack int) *topology.Cluster {
	c := topology.NewCluster()
	for i := range nodes {
		c.SetNode(hallNode(i, perRack))
	}
	return c
}

func hallNode(i, perRack int) *corev1.Node {
	rack := i / perRack
	return nodeOf(benchLevels, fmt.Sprintf("node-%06d z%d/b%d/r%d 8 label=%s=node-%06d", i, rack/250, rack/25, rack, corev1.LabelHostname, i))
}

// BenchmarkRackGang places and releases one gang of 8 whole hosts in one rack, in steady state: every round four racks' worth of change.
func BenchmarkRackGang(b *testing.B) {
	for _, nodes := range []int{1_000, 40_000, 100_000} {
		for name, ls := range map[string]topology.Levels{"rack": benchLevels, "host": append(levels("zone", "block", "rack"), levels("host")...)} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				c := hall(nodes, 16)
				g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 2, none, 1, 8, gpus(8))}}
				PlanGraph(c, g, Options{})
				b.ReportAllocs()
				for b.Loop() {
					if r := PlanGraph(c, g, Options{}); !r.Placed() {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}

// BenchmarkGraph places and releases a graph of a block with two components on 40,000 nodes: leader and seven workers per rack gang, and a
// router without GPUs.
func BenchmarkGraph(b *testing.B) {
	c := hall(40_000, 16)
	decode := componentOf("decode", 2, none, 3, 7, gpus(8))
	for i := range decode.Waiting {
		decode.Waiting[i].Pods = append(decode.Waiting[i].Pods, pods(fmt.Sprintf("lead-%d", i), 1, cpus(4))...)
	}
	for _, level := range []int{none, 0, 1} {
		b.Run(benchLevels.Name(level), func(b *testing.B) {
			g := Demand{Levels: benchLevels, Required: level, Preferred: none, Components: []Component{decode, componentOf("router", none, none, 2, 1, cpus(2))}}
			for b.Loop() {
				if r := PlanGraph(c, g, Options{}); !r.Placed() {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkGangsOfFour fills 5,000 nodes in 50 racks with 2,250 gangs of 4 pods.
func BenchmarkGangsOfFour(b *testing.B) {
	const gangs = 2250
	ls := levels("rack")
	for b.Loop() {
		b.StopTimer()
		c := topology.NewCluster()
		for i := range 5000 {
			c.SetNode(nodeOf(ls, fmt.Sprintf("node-%06d r%d 8", i, i/100)))
		}
		graphs := make([]Demand, gangs)
		for i := range graphs {
			graphs[i] = Demand{Levels: ls, Required: none, Preferred: none,
				Components: []Component{componentOf("g"+strconv.Itoa(i), 0, none, 1, 4, gpus(4))}}
		}
		b.StartTimer()
		for i := range graphs {
			if r := PlanGraph(c, graphs[i], Options{}); !r.Placed() {
				b.Fatal("refused")
			}
		}
	}
	b.ReportMetric(float64(gangs*4*b.N)/b.Elapsed().Seconds(), "pods/s")
}

// BenchmarkThousandPods places a gang of 1,000 pods on 2,500 nodes, tree and counts built cold.
func BenchmarkThousandPods(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := hall(2500, 16)
		g := Demand{Levels: benchLevels, Required: 0, Preferred: none, Components: []Component{componentOf("w", none, none, 1, 1000, gpus(8))}}
		b.StartTimer()
		if r := PlanGraph(c, g, Options{}); !r.Placed() {
			b.Fatal("refused")
		}
	}
}

// BenchmarkRefusal proves that nothing fits on 5,000 full nodes and explains why: alone, and as a base gang of two components.
func BenchmarkRefusal(b *testing.B) {
	c := hall(5000, 100)
	for i := range 5000 {
		name := fmt.Sprintf("node-%06d", i)
		c.Assume("busy-"+name, name, gpus(7))
	}
	graphs := map[string]Demand{
		"gang": {Required: none, Components: []Component{componentOf("w", 2, none, 1, 8, gpus(8))}},
		"root": {Required: none, Components: []Component{componentOf("w", none, none, 1, 8, gpus(8))}},
		"base": {Required: 1, Components: []Component{componentOf("d", 2, none, 2, 8, gpus(8)), componentOf("p", 2, none, 2, 4, gpus(1))}},
	}
	mixed := componentOf("m", 2, none, 1, 100, gpus(1))
	mixed.Waiting[0].Pods = append(pods("x", 60, cpus(600)), pods("y", 100, cpus(500))...)
	graphs["mixed"] = Demand{Required: none, Components: []Component{mixed}}
	for name, g := range graphs {
		g.Levels, g.Preferred = benchLevels, none
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := PlanGraph(c, g, Options{})
				if r.Placed() || r.Replicas[0].Refusal.Message() == "" {
					b.Fatal("placed, or refused without a word")
				}
			}
		})
	}
}

// BenchmarkBudget runs the search into its budget: shapes that fit by every count and cannot be packed.
func BenchmarkBudget(b *testing.B) {
	ls := levels("rack")
	c := topology.NewCluster()
	for i := range 64 {
		c.SetNode(nodeOf(ls, fmt.Sprintf("n%02d r 1 cpu=%d", i, 10+i%7)))
	}
	var list []Pod
	for i, size := range []int{3, 4, 5, 7} {
		list = append(list, pods("p"+strconv.Itoa(i), 43, cpus(size))...)
	}
	for b.Loop() {
		before := c.Work()
		_, why := PlanGroup(c, ls, nil, &Group{Required: 0, Preferred: none, Pods: list}, Options{})
		b.ReportMetric(float64(c.Work()-before), "comparisons")
		if why == nil {
			b.Fatal("placed")
		}
		b.ReportMetric(float64(bools.Int(why.Code == CodeBudgetExhausted)), "exhausted")
	}
}

// BenchmarkMemory builds 100,000 nodes with 200,000 pods and two views.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := hall(100_000, 16)
		pod := podOf(map[string]string{gpu: "1", "cpu": "2", "memory": "4Gi"})
		for i := range 200_000 {
			p := *pod
			p.UID = types.UID(fmt.Sprintf("12345678-1234-1234-1234-%012d", i))
			p.Spec.NodeName = fmt.Sprintf("node-%06d", i/2)
			c.SetPod(&p)
		}
		g := Demand{Levels: benchLevels, Required: 0, Preferred: none, Components: []Component{componentOf("w", 2, none, 1, 8, gpus(4)), componentOf("l", 2, none, 1, 1, cpus(2))}}
		if r := PlanGraph(c, g, Options{}); !r.Placed() {
			b.Fatal("refused")
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(c)
	}
}
