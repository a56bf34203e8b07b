// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strconv"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// attachment is a volume of a driver on a node, and slot all volumes of a driver there.
type attachment struct {
	node           topology.NodeID
	driver, handle string
}

type slot struct {
	node   topology.NodeID
	driver string
}

// limitOf is how many volumes of a driver a node attaches.
func limitOf(node *storagev1.CSINode, driver string) (limit int, limited bool) {
	if node == nil || driver == "" {
		return 0, false
	}
	for i := range node.Spec.Drivers {
		if d := &node.Spec.Drivers[i]; d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count), true
		}
	}
	return 0, false
}

// full reports whether one more pod would have a node attach more volumes than its driver does there.
func (b *binding) full(of *class, n topology.NodeID) string {
	node := b.store.nodes[b.cluster.NodeName(n)]
	if node == nil {
		return ""
	}
	more := map[string]int{}
	for i, c := range of.claims {
		driver, handle := c.handle()
		if driver == "" || !c.own && b.attached[attachment{n, driver, handle}] > 0 || !c.own && slices.ContainsFunc(of.claims[:i], c.same) {
			continue
		}
		more[driver]++
	}
	for driver, count := range more {
		if limit, limited := limitOf(node, driver); limited && b.perNode[slot{n, driver}]+count > limit {
			return "volume limit of " + driver + " reached: " + strconv.Itoa(limit)
		}
	}
	return ""
}

func (c *claim) same(other *claim) bool { return c.name == other.name }

// attach counts the volume of a claim for k more pods on a node: each its own, or one that they share.
func (b *binding) attach(c *claim, n topology.NodeID, k int) {
	driver, handle := c.handle()
	if driver == "" {
		return
	}
	if c.own {
		b.perNode[slot{n, driver}] += k
		return
	}
	a := attachment{n, driver, handle}
	before := b.attached[a]
	b.attached[a] = before + k
	switch {
	case before == 0 && k > 0:
		b.perNode[slot{n, driver}]++
	case before > 0 && before+k == 0:
		b.perNode[slot{n, driver}]--
	}
}
