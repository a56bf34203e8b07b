// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// hall is hosts of eight devices with UUIDs, in zones of 16 hosts, and five claims a host that have a device each: on the host, but for every fourth zone,
// which is free.
func hall(hosts int) (*claims.Store, *topology.Cluster) {
	s := storeOf(gpus(), template("four", asks("gpu", 4)), template("eight", asks("gpu", 8)), template("one", asks("gpu", 1)))
	c := clusterOf(s)
	for i := range hosts {
		name := fmt.Sprintf("n%04d", i)
		c.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: fmt.Sprintf("z%03d", i/16), corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("100"), corev1.ResourcePods: resource.MustParse("110")},
			},
		})
		s.Set(slice(name, "h100", "h100", "h100", "h100", "h100", "h100", "h100", "h100"))
		for k := range 5 {
			at, device := name, fmt.Sprintf("gpu-%d", k)
			if i/16%4 == 0 {
				at, device = "elsewhere", fmt.Sprintf("gpu-%d-%d", i, k)
			}
			s.Set(has(claim(fmt.Sprintf("used-%d-%d", i, k), asks("gpu", 1)), at, device))
		}
	}
	return s, c
}

// BenchmarkPlan places a gang of 16 pods on 2,000 nodes with 16,000 devices and 10,000 claims: pods without claims, of one kind, and of two kinds. "a claim
// changes" between two plans; "at first" is the first plan after a start, with all selectors still to be compiled and evaluated; "UUIDs" has a selector
// that names them, so that no two hosts are alike; in "networks" the hosts of each zone also reach 32 devices together, of which one changes hands.
func BenchmarkPlan(b *testing.B) {
	for name, pods := range map[string][]*corev1.Pod{
		"no claims": pods(16, "x"), "one kind": pods(16, "x", "eight"), "two kinds": append(pods(8, "x", "eight"), pods(8, "y", "four")...),
	} {
		b.Run(name, func(b *testing.B) {
			_, c := hall(2000)
			for b.Loop() {
				planOne(b, c, pods)
			}
		})
	}
	b.Run("a claim changes", func(b *testing.B) {
		s, c := hall(2000)
		theirs := has(claim("theirs", asks("gpu", 1)), "n0017", "gpu-7")
		for b.Loop() {
			s.Set(theirs)
			planOne(b, c, pods(16, "x", "eight"))
			s.Delete(theirs)
		}
	})
	b.Run("at first", func(b *testing.B) {
		s, c := hall(2000)
		for b.Loop() {
			b.StopTimer()
			s.Allocator = allocator.New()
			s.Forget()
			b.StartTimer()
			planOne(b, c, pods(16, "x", "eight"))
		}
	})
}

// BenchmarkPlanHalls is in halls in which hosts differ.
func BenchmarkPlanHalls(b *testing.B) {
	b.Run("UUIDs", func(b *testing.B) {
		s, c := hall(2000)
		s.Set(template("eight", asks("gpu", 8, `device.attributes["gpu.example.com"].uuid != ""`)))
		for b.Loop() {
			b.StopTimer()
			s.Forget()
			b.StartTimer()
			planOne(b, c, pods(16, "x", "eight"))
		}
	})
	b.Run("networks", func(b *testing.B) {
		s, c := hall(2000)
		s.Set(nics())
		for i := range 2000 / 16 {
			s.Set(networkOf(fmt.Sprintf("z%03d", i), 32))
		}
		theirs := has(claim("theirs", asks("nic", 1)), "n0017", "gpu-0")
		theirs.Status.Allocation.Devices.Results[0].Driver, theirs.Status.Allocation.Devices.Results[0].Pool = "net.example.com", "z001"
		for b.Loop() {
			s.Set(theirs)
			planOne(b, c, pods(16, "x", "eight"))
			s.Delete(theirs)
		}
	})
}

func planOne(b *testing.B, c *topology.Cluster, pods []*corev1.Pod) {
	c.Begin()
	if r := placement.PlanGraph(c, graphOf(0, pods...), placement.Options{}); !r.Placed() {
		b.Fatal(r.Replicas[0].Refusal.Message())
	}
	c.Rollback()
}
