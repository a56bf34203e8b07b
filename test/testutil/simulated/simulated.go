// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulated makes Node objects of simulated hardware: hosts with GPUs in racks, blocks and zones. The sandbox and tests of pure
// packages use them.
package simulated

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Label keys of the simulated topology, broadest first. The narrowest is kubernetes.io/hostname.
const (
	ZoneKey  = corev1.LabelTopologyZone
	BlockKey = "topology.trellis.dev/block"
	RackKey  = "topology.trellis.dev/rack"
	HostKey  = corev1.LabelHostname
)

// GPU is the resource name of the hosts' GPUs.
const GPU corev1.ResourceName = "nvidia.com/gpu"

const rdmaResource corev1.ResourceName = "rdma/ib"

// Shape counts the hardware: zones, and for each further field the number per parent. Zero means the default (2, 2, 3, 4 and 8); negative
// GPUs mean none.
type Shape struct {
	Zones, Blocks, Racks, Hosts, GPUs int
}

// DefaultShape has 48 hosts in 12 racks.
var DefaultShape = Shape{Zones: 2, Blocks: 2, Racks: 3, Hosts: 4, GPUs: 8}

// maxNodes is far above the capacity of one machine; it catches typing errors.
const maxNodes = 100_000

// Complete replaces zeros by defaults. It refuses counts out of range and more than maxNodes nodes.
func (s Shape) Complete() (Shape, error) {
	d := DefaultShape
	s = Shape{cmp.Or(s.Zones, d.Zones), cmp.Or(s.Blocks, d.Blocks), cmp.Or(s.Racks, d.Racks), cmp.Or(s.Hosts, d.Hosts), cmp.Or(s.GPUs, d.GPUs)}
	s.GPUs = max(s.GPUs, 0)
	n := 1
	for _, c := range []struct {
		what  string
		count int
	}{{"zones", s.Zones}, {"blocks", s.Blocks}, {"racks", s.Racks}, {"hosts", s.Hosts}} {
		if c.count < 1 || c.count > maxNodes {
			return s, fmt.Errorf("%s: %d is not between 1 and %d", c.what, c.count, maxNodes)
		}
		if n *= c.count; n > maxNodes {
			return s, fmt.Errorf("%d zones x %d blocks x %d racks x %d hosts are more than %d nodes", s.Zones, s.Blocks, s.Racks, s.Hosts, maxNodes)
		}
	}
	return s, nil
}

// Nodes makes the Node objects. Racks and blocks have the same label values in every parent (rack-0 is in every block of every zone), as on
// many real clusters: a domain is a path, and code that mistakes a value for a domain shall fail here first.
func (s Shape) Nodes() []corev1.Node {
	var nodes []corev1.Node
	for z := range s.Zones {
		for b := range s.Blocks {
			for r := range s.Racks {
				for h := range s.Hosts {
					zone, block, rack := fmt.Sprintf("zone-%d", z), fmt.Sprintf("block-%d", b), fmt.Sprintf("rack-%d", r)
					name := fmt.Sprintf("%s-%s-%s-host-%d", zone, block, rack, h)
					nodes = append(nodes, NewNode(name, s.GPUs, map[string]string{ZoneKey: zone, BlockKey: block, RackKey: rack}))
				}
			}
		}
	}
	return nodes
}

// NewNode makes a GPU host with the given labels; it has no hostname label and no conditions.
func NewNode(name string, gpus int, labels map[string]string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for k, v := range labels {
		n.Labels[k] = v
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("192"),
		corev1.ResourceMemory: resource.MustParse("2Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	if gpus > 0 {
		n.Status.Allocatable[GPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		n.Status.Allocatable[rdmaResource] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return n
}
