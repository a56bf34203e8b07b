// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fragmented is a hall of racks of 16 hosts with 8 GPUs, none of which is free as a whole: on half of the hosts a replica of 4 GPUs may move
// inside its zone, on some replicas of two whole hosts may, and pods that never move use a part of the others.
func fragmented(hosts int, random *rand.Rand) *hall {
	h := &hall{}
	for i := range hosts {
		h.add(fmt.Sprintf("z%d/r%d", i/4000, i/16), 8)
	}
	for i := 0; i < hosts; i++ {
		zone := h.paths[i][:1].String()
		switch kind := random.IntN(16); {
		case kind < 8:
			h.runs(fmt.Sprintf("g%d", i), zone, none, 4, i)
		case kind < 10 && i%16 < 15:
			h.runs(fmt.Sprintf("g%d", i), zone, 1, 8, i, i+1)
			i++
		default:
			h.uses(i, 1+random.Int64N(8))
		}
	}
	return h
}

// TestLargeHall: gangs get racks in halls of many nodes, one after the other, and each plan can be carried out.
func TestLargeHall(t *testing.T) {
	for _, hosts := range []int{1000, 4000} {
		h := fragmented(hosts, rand.New(rand.NewPCG(uint64(hosts), 1)))
		var gpus int64
		unblocked := 0
		for ; unblocked < 10; unblocked++ {
			gang := gangOf(1, 6, 8)
			found := Find(h.place(), gang, h.replicas, Limits{})
			if found.Plan == nil {
				t.Logf("%d hosts: no moves for gang %d, after %d sets and %d plans", hosts, unblocked, found.Sets, found.Plans)
				break
			}
			h.check(t, gang, found.Plan)
			gpus += found.Plan.Cost.GPUs
			for _, m := range found.Plan.Moves {
				for i := range m.Replica.Pods {
					m.Replica.Pods[i].Node = m.Nodes[i]
				}
			}
			for _, node := range found.Plan.Nodes {
				h.uses(h.host(node), 8)
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("%d hosts, %d replicas: %d gangs unblocked, %d GPUs restarted", hosts, len(h.replicas), unblocked, gpus)
		if unblocked < 5 {
			t.Errorf("%d hosts: moves were found for %d gangs of 10", hosts, unblocked)
		}
	}
}

// BenchmarkFind measures one search.
func BenchmarkFind(b *testing.B) {
	for _, hosts := range []int{1000, 40_000} {
		h := fragmented(hosts, rand.New(rand.NewPCG(1, 1)))
		place := h.place()
		for _, pods := range []int{2, 8, 16} {
			b.Run(fmt.Sprintf("hosts=%d/pods=%d", hosts, pods), func(b *testing.B) {
				gang := gangOf(1, pods, 8)
				var last Result
				for b.Loop() {
					last = Find(place, gang, h.replicas, Limits{})
				}
				b.ReportMetric(float64(last.Sets), "sets")
				b.ReportMetric(float64(last.Plans), "plans")
				if last.Plan != nil {
					b.ReportMetric(float64(last.Plan.Cost.GPUs), "GPUs")
				}
			})
		}
	}
}
