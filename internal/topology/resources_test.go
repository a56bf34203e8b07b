// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strconv"
	"testing"
)

// Pods may ask for any names: those that no node offers take no memory of the cluster or of any node, also while the pods exist.
func TestNamesOfPodsTakeNoMemory(t *testing.T) {
	c := NewCluster()
	for i := range 4 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", "1"), amounts{gpu: "8"}))
	}
	for i := range 5000 {
		pod := makePod("p", "n"+strconv.Itoa(i%4), amounts{gpu: "1", "example.com/r-" + strconv.Itoa(i): "1"})
		c.SetPod(pod)
		if got := fit(c, zoneRack, ShapeOf(pod), "a"); got != 0 {
			t.Fatalf("%d pods fit that ask for what no node has", got)
		}
	}
	if got := fit(c, zoneRack, ShapeOf(makePod("q", "", amounts{gpu: "1"})), "a"); got != 31 {
		t.Errorf("fit %d beside one pod, want 31", got)
	}
	c.DeletePod("ns/p")
	if n := len(c.resources.names); n > 2 {
		t.Errorf("%d names are kept, and the nodes offer 2", n)
	}
	for _, n := range c.nodes {
		if len(n.used) > 2 {
			t.Errorf("%s counts %d resources", n.name, len(n.used))
		}
	}
}

// A name is given up with the last node that offers it, and its pods are counted when a node offers it again.
func TestNamesComeAndGoWithNodes(t *testing.T) {
	c := NewCluster()
	ask := ShapeOf(makePod("q", "", amounts{"example.com/nic": "1"}))
	want := func(what string, n int) {
		t.Helper()
		if got := fit(c, zoneRack, ask); got != n {
			t.Errorf("%s: fit %d, want %d", what, got, n)
		}
	}
	c.SetPod(makePod("p", "n0", amounts{"example.com/nic": "2"}))
	c.SetNode(makeNode("n0", at("a", "1"), nil))
	want("no node has it", 0)
	c.SetNode(makeNode("n0", at("a", "1"), amounts{"example.com/nic": "4"}))
	want("2 of 4 are used", 2)
	for i := range 1000 {
		c.SetNode(makeNode("n1", at("a", "2"), amounts{"example.com/r-" + strconv.Itoa(i): "1"}))
	}
	want("another node has other things", 2)
	c.SetNode(makeNode("n0", at("a", "1"), amounts{"example.com/nic": "0"}))
	want("it is gone", 0)
	if e, excluded := c.Why("n0", ask); !excluded || e.String() != "short of example.com/nic" {
		t.Errorf("reason %q", e)
	}
	c.DeletePod("ns/p")
	c.SetNode(makeNode("n0", at("a", "1"), amounts{"example.com/nic": "3"}))
	want("it is back, and the pod gone", 3)
	c.DeleteNode("n0")
	c.DeleteNode("n1")
	if n := len(c.resources.index); n != 1 {
		t.Errorf("%d names without a node", n)
	}
	if n := len(c.resources.names); n > 4 {
		t.Errorf("%d indexes for at most 3 names at once", n)
	}
}
