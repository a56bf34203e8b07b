// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of naming nodes to the kube-scheduler: what a name in a pod costs everybody who reads and writes the pod, against what a node costs
// that the kube-scheduler has to look at (docs/performance.md).
const (
	// maxNamedNodes is how many are named at most.
	maxNamedNodes = 20
	// namedShare is how many times as many nodes the cluster has to have.
	namedShare = 32
)

// nodesToName lists nodes of a replica's domain, any of which will do for any of its pods. The kube-scheduler then looks at these only; by
// labels alone it finds them among all nodes of the cluster, for every pod. These are all nodes of a small domain. In a large one they are the planned
// hosts, when the replica fills them: no other pod of its kind can be planned there meanwhile, so nobody is in anybody's way.
// nil: what goes beyond that, or a cluster so small that it is not worth it.
func (r *Request) nodesToName(c *topology.Cluster, domain topology.Path, replica placement.ReplicaResult) []string {
	var names []string
	tree := c.Tree(r.Graph.Levels, r.Graph.NodeSelector)
	if d, found := tree.Find(domain); found && tree.Size(d) <= maxNamedNodes {
		tree.AllNodes(d, func(n topology.NodeID) bool {
			names = append(names, c.NodeName(n))
			return true
		})
	} else if found {
		names = r.filledHosts(c, replica)
	}
	if len(names)*namedShare > c.Size() {
		return nil
	}
	return names
}

// filledHosts lists the planned hosts of a replica's pods, which are alike, if none of them has capacity for one more.
func (r *Request) filledHosts(c *topology.Cluster, replica placement.ReplicaResult) []string {
	var names []string
	for _, pod := range replica.Pods {
		names = append(names, pod.Node)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxNamedNodes {
		return nil
	}
	shape := topology.ShapeOf(r.Gated[replica.Pods[0].ID])
	for _, name := range names {
		if _, full := c.Why(name, shape); !full {
			return nil
		}
	}
	return names
}
