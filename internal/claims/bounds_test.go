// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// Devices that the hosts of a zone reach together tell apart these hosts from those of other zones, and from nothing else.
func TestNetworksOfZones(t *testing.T) {
	s, c := hall(128)
	s.Set(nics())
	for i := range 128 / 16 {
		s.Set(networkOf(fmt.Sprintf("z%03d", i), 2))
	}
	theirs := has(claim("theirs", asks("nic", 1)), "n0017", "gpu-0")
	theirs.Status.Allocation.Devices.Results[0].Driver, theirs.Status.Allocation.Devices.Results[0].Pool = "net.example.com", "z001"
	before := s.Asked()
	for range 2 {
		s.Set(theirs)
		c.Begin()
		if r := placement.PlanGraph(c, graphOf(0, pods(16, "x", "eight")...), placement.Options{}); !r.Placed() {
			t.Fatal(r.Replicas[0].Refusal.Message())
		}
		c.Rollback()
		s.Delete(theirs)
	}
	if asked := s.Asked() - before; asked > 128 {
		t.Errorf("the allocator was asked %d times about eight zones of like hosts", asked)
	}
}

// A plan stops asking when it has compared too much, and the next one continues.
func TestAskedWithinTheBudget(t *testing.T) {
	s, c := hall(128)
	s.Set(template("eight", asks("gpu", 8, `device.attributes["gpu.example.com"].uuid != ""`)))
	planned := func() placement.ReplicaResult {
		c.Begin()
		defer c.Rollback()
		return placement.PlanGraph(c, graphOf(0, pods(16, "x", "eight")...), placement.Options{PlanBudget: 50_000}).Replicas[0]
	}
	before := s.Asked()
	one := planned()
	if one.Refusal == nil || one.Refusal.Code != placement.CodeBudgetExhausted {
		t.Fatalf("not refused for the budget: %+v", one.Refusal)
	}
	if asked := s.Asked() - before; asked > 160 {
		t.Errorf("the allocator was asked %d times", asked)
	}
	for range 20 {
		if one = planned(); one.Refusal == nil {
			return
		}
	}
	t.Errorf("refused after 20 plans: %s", one.Refusal.Message())
}

// Allocations that take too long end a plan, whatever number of classes it has.
func TestTooLongForManyClasses(t *testing.T) {
	s := storeOf(gpus(), slice("a-1", "h"), slice("a-2", "h", "h"), slice("b-1", "h", "h", "h"))
	slow := &slow{}
	s.Allocator = slow
	var list []*corev1.Pod
	for i := range 20 {
		name := fmt.Sprintf("t%d", i)
		s.Set(template(name, asks("gpu", int64(i+1))))
		list = append(list, pods(1, name, name)...)
	}
	r := placement.PlanGraph(clusterOf(s), graphOf(none, list...), placement.Options{}).Replicas[0]
	if r.Refusal == nil || r.Refusal.Code != placement.CodeBudgetExhausted || slow.asked > 3 {
		t.Errorf("asked %d times: %+v", slow.asked, r.Refusal)
	}
}

// Nodes that are gone are forgotten.
func TestForgetsNodes(t *testing.T) {
	s, c := hall(256)
	plan := func() {
		c.Begin()
		placement.PlanGraph(c, graphOf(none, pods(1, "x", "four")...), placement.Options{})
		c.Rollback()
	}
	plan()
	for i := range 256 {
		if i%64 != 0 {
			c.DeleteNode(fmt.Sprintf("n%04d", i))
		}
	}
	if plan(); s.Hosts() > 4+claims.MaxGone {
		t.Errorf("%d nodes are remembered of 4", s.Hosts())
	}
}
