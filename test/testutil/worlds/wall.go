// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// Walls are the shapes of the clusters of [Wall], by number of hosts.
var Walls = map[int]simulated.Shape{
	64:   {Zones: 2, Blocks: 2, Racks: 4, Hosts: 4, GPUs: 8},
	400:  {Zones: 2, Blocks: 5, Racks: 5, Hosts: 8, GPUs: 8},
	2000: {Zones: 2, Blocks: 5, Racks: 10, Hosts: 20, GPUs: 8},
}

// Indexes of the hosts of a [Wall] that differ from the others.
const (
	// WallOverbooked has 8 GPUs, of which pods use 24.
	WallOverbooked = 3
	// WallCordoned is cordoned, with 2 of its 8 GPUs used.
	WallCordoned = 13
	// WallLarge has 72 GPUs.
	WallLarge = 20
)

// Wall is a cluster for a screen on a wall, of one of the sizes in [Walls], with up to 200 graphs. The graphs have many sizes, some have
// long names, and they nearly fill the cluster. Hosts have 8 GPUs, one in 23 has 4, and one has 72. One host is overbooked, some are
// cordoned or not ready, and the last four graphs wait.
func Wall(hosts int) (*Builder, error) {
	b := New(Walls[hosts])
	for i, n := range b.Nodes {
		switch {
		case i == WallLarge:
			n.Status.Allocatable[simulated.GPU] = resource.MustParse("72")
		case i%23 == 22:
			n.Status.Allocatable[simulated.GPU] = resource.MustParse("4")
		}
	}
	b.Occupy(WallOverbooked, 24)
	b.Occupy(WallCordoned, 2)
	b.Occupy(WallLarge, 5)
	for i := WallCordoned; i < hosts; i += 97 {
		b.Cordon(i)
	}
	for i := 41; i < hosts; i += 211 {
		b.Break(i)
	}
	for i := 5; i < hosts; i += 7 {
		if i != WallLarge && i != WallCordoned {
			b.Occupy(i, int64(1+i%4))
		}
	}
	sizes := []struct {
		pack                  string
		replicas, nodes, gpus int
	}{{"rack", 1, 2, 8}, {"rack", 2, 1, 4}, {"block", 1, 3, 8}, {"rack", 3, 1, 2}, {"zone", 1, 1, 8}, {"rack", 1, 1, 1}}
	for i := range min(hosts/2, 200) {
		s, name := sizes[i%len(sizes)], fmt.Sprintf("model-%d", i)
		if i%19 == 7 {
			name = fmt.Sprintf("a-deployment-with-a-name-that-is-longer-than-most-of-them-%d", i)
		}
		if err := b.Apply(Graph(fmt.Sprintf("team-%c", 'a'+i%5), name, s.pack, s.replicas, s.nodes*max(1, hosts/400), s.gpus)); err != nil {
			return nil, err
		}
	}
	for i := range 4 {
		nodes := Walls[hosts].Hosts - i%2
		if err := b.Apply(Graph("team-w", fmt.Sprintf("waits-%d", i), "rack", 1+i, nodes, 8)); err != nil {
			return nil, err
		}
	}
	return b, nil
}
