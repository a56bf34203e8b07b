// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of naming nodes to the kube-scheduler: what a name in a pod costs everybody who reads and writes the pod, against what a node
// costs that the kube-scheduler has to look at (docs/performance.md).
const (
	// maxNamedNodes is how many are named at most.
	maxNamedNodes = 20
	// namedShare is how many times as many nodes the cluster has to have.
	namedShare = 32
)

// namedNodes are the nodes that the pods of a replica name to the kube-scheduler, which then looks at these only; by labels alone it finds
// them among all nodes of the cluster, for every pod.
type namedNodes struct {
	// domain lists all nodes of a small domain; any of them will do for any of the pods.
	domain []string
	// planned: each pod names the host that it is planned on. Each of the pods fills a host, so they could only change places, and so could
	// pods of their kind that name no host. With one node left a kube-scheduler compares nothing, either.
	planned bool
}

// of lists what one pod names; nil: nothing, its labels are enough.
func (n namedNodes) of(pod placement.PodResult) []string {
	if n.planned {
		return []string{pod.Node}
	}
	return n.domain
}

// nodesToName decides which nodes a replica's pods name, if any: a cluster may be so small that it is not worth it.
func (r *Request) nodesToName(c *topology.Cluster, domain topology.Path, replica placement.ReplicaResult) namedNodes {
	place := r.Graph.PlaceOf(replica.Component)
	tree := c.Tree(place.Levels, place.NodeSelector)
	d, found := tree.Find(domain)
	if !found || namedShare > c.Size() {
		return namedNodes{}
	}
	small := tree.Size(d) <= maxNamedNodes
	if hosts := plannedHosts(replica); len(hosts) == len(replica.Pods) && (!small || len(hosts) == tree.Size(d)) &&
		r.filled(c, hosts, replica) {
		return namedNodes{planned: true}
	}
	if !small || tree.Size(d)*namedShare > c.Size() {
		return namedNodes{}
	}
	var names []string
	tree.AllNodes(d, func(n topology.NodeID) bool {
		names = append(names, c.NodeName(n))
		return true
	})
	return namedNodes{domain: names}
}

// plannedHosts lists the hosts of a replica's pods, each once.
func plannedHosts(replica placement.ReplicaResult) []string {
	var names []string
	for _, pod := range replica.Pods {
		names = append(names, pod.Node)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// filled reports whether none of the hosts has capacity for one more of the replica's pods, which are alike.
func (r *Request) filled(c *topology.Cluster, hosts []string, replica placement.ReplicaResult) bool {
	shape := topology.ShapeOf(r.Gated[replica.Pods[0].ID])
	return !slices.ContainsFunc(hosts, func(host string) bool {
		_, full := c.Why(host, shape)
		return !full
	})
}
