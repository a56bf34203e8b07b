// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Demo is the cluster of make demo when it draws its map: with the pods of another team, two cordoned hosts, and a deployment that is
// scaled beyond the capacity. root is the root of the repository.
func Demo(root string) (*Builder, error) {
	b := New(simulated.DefaultShape)
	if err := b.neighbours(filepath.Join(root, "config/samples/neighbours/training.yaml")); err != nil {
		return nil, err
	}
	b.Cordon(41)
	b.Cordon(46)
	for _, name := range []string{"component-level", "deployment-level", "mixed"} { // in the order of the demo
		dgd, err := b.sample(root, name)
		if err != nil {
			return nil, err
		}
		if err := b.apply(dgd); err != nil {
			return nil, err
		}
	}
	larger, err := b.sample(root, "component-level")
	if err != nil {
		return nil, err
	}
	larger.Component("Worker").Replicas = ptr.To(int32(13)) // one more than the number of racks
	return b, b.apply(larger)
}

// Small has 8 hosts in two racks, a graph, and a second graph that waits for a host.
func Small() (*Builder, error) {
	b := New(simulated.Shape{Zones: 1, Blocks: 1, Racks: 2, Hosts: 4, GPUs: 8})
	b.Occupy(7, 6)
	b.Occupy(4, 2)
	b.Cordon(5)
	if err := b.Apply(Graph("team-a", "chat", "rack", 2, 2, 8)); err != nil {
		return nil, err
	}
	return b, b.Apply(Graph("team-a", "code", "rack", 1, 3, 8))
}

// Medium has 64 hosts in 16 racks with six graphs of two teams.
func Medium() (*Builder, error) {
	b := New(simulated.Shape{Zones: 2, Blocks: 2, Racks: 4, Hosts: 4, GPUs: 8})
	for host := 3; host < 64; host += 7 {
		b.Occupy(host, int64(1+host%8))
	}
	b.Cordon(10)
	b.Cordon(55)
	b.Break(33)
	for i, g := range []struct {
		pack                  string
		replicas, nodes, gpus int
	}{{"rack", 3, 2, 8}, {"block", 1, 6, 8}, {"rack", 4, 2, 4}, {"zone", 2, 4, 8}, {"rack", 2, 4, 2}, {"rack", 4, 4, 8}} {
		if err := b.Apply(Graph(fmt.Sprintf("team-%c", 'a'+i%2), fmt.Sprintf("model-%d", i), g.pack, g.replicas, g.nodes, g.gpus)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// TwoTopologies has 96 hosts in two ClusterTopologies, by racks and by power, and graphs of two teams that use either topology. Six graphs
// wait, some in each topology.
func TwoTopologies() (*Builder, error) {
	b := New(simulated.Shape{Zones: 2, Blocks: 2, Racks: 3, Hosts: 8, GPUs: 8})
	b.Topology("power", 2, 8)
	for host := 2; host < 96; host += 9 {
		b.Occupy(host, int64(1+host%8))
	}
	b.Cordon(20)
	b.Cordon(44)
	b.Break(71)
	for _, g := range []struct {
		team, name, topology, pack string
		replicas, nodes, gpus      int
	}{
		{"team-a", "chat", "datacenter", "rack", 3, 4, 8}, {"team-a", "search", "datacenter", "rack", 6, 1, 4},
		{"team-a", "long-context", "datacenter", "zone", 1, 20, 8}, {"team-b", "batch", "power", "pdu", 2, 4, 8},
		{"team-b", "vision", "datacenter", "block", 2, 2, 2}, {"team-b", "huge", "power", "pdu", 1, 6, 8},
		{"team-b", "wide", "power", "feed", 1, 44, 8}, {"team-a", "giant", "datacenter", "rack", 2, 8, 8},
		{"team-a", "too-many", "datacenter", "rack", 1, 9, 8}, {"team-b", "trial", "datacenter", "block", 1, 16, 8},
		{"team-b", "next", "power", "pdu", 2, 6, 8},
	} {
		manifest := strings.Replace(Graph(g.team, g.name, g.pack, g.replicas, g.nodes, g.gpus), "datacenter", g.topology, 1)
		if err := b.Apply(manifest); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Large has 2,000 hosts in 100 racks and 24 graphs.
func Large() (*Builder, error) {
	b := New(simulated.Shape{Zones: 2, Blocks: 5, Racks: 10, Hosts: 20, GPUs: 8})
	for host := 5; host < 2000; host += 11 {
		b.Occupy(host, int64(1+host%8))
	}
	for host := 17; host < 2000; host += 97 {
		b.Cordon(host)
	}
	for host := 29; host < 2000; host += 211 {
		b.Break(host)
	}
	for i := range 24 {
		nodes := 2 << (i % 4)
		if err := b.Apply(Graph(fmt.Sprintf("team-%c", 'a'+i%5), fmt.Sprintf("model-%d", i), "rack", 2+i%7, nodes, 8)); err != nil {
			return nil, err
		}
	}
	return b, b.Apply(Graph("team-a", "giant", "rack", 3, 20, 8))
}
