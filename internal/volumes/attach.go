// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strconv"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// attachment identifies a volume of a driver on a node. slot identifies all volumes of a driver on a node.
type attachment struct {
	node           topology.NodeID
	driver, handle string
}

type slot struct {
	node   topology.NodeID
	driver string
}

// limitOf returns how many volumes of a driver a node can attach; false for no limit.
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

// requires reports whether pods with volumes of a driver need a node on which the driver is installed
// (CSIDriver.spec.preventPodSchedulingIfMissing, feature VolumeLimitScaling). The API server stores the field only if the feature is on.
func (s *Store) requires(driver string) bool {
	d := s.drivers[driver]
	return d != nil && d.Spec.PreventPodSchedulingIfMissing != nil && *d.Spec.PreventPodSchedulingIfMissing
}

// missing returns the reason if a node lacks a driver that a pod's volumes require; "" for none. With a partial store, a node without a
// CSINode may have any driver.
func (b *binding) missing(of *class, node *storagev1.CSINode) string {
	if node == nil && b.store.Partial {
		return ""
	}
	for _, c := range of.claims {
		driver, _ := c.handle()
		if b.store.requires(driver) && !installed(node, driver) {
			return "CSI driver " + driver + " not installed"
		}
	}
	return ""
}

func installed(node *storagev1.CSINode, driver string) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// full returns the reason that keeps one more pod off a node: a missing driver, or the volume limit of a driver.
func (b *binding) full(of *class, n topology.NodeID) string {
	node := b.store.nodes[b.cluster.NodeName(n)]
	if why := b.missing(of, node); why != "" || node == nil {
		return why
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

// attach adds k pods to the counts of a claim's volume on a node; k is negative if pods are removed. Pods with a shared claim attach the
// volume once.
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
