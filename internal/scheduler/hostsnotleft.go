// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// avoided has, by graph and replica (see [gang.Of]), the hosts on which preempted pods did not terminate in time for the replica's gang.
// While pods are still terminating on such a host, the replica is placed on other hosts if they have capacity.
type avoided map[types.NamespacedName]map[string][]string

func (a avoided) add(graph types.NamespacedName, replica, node string) {
	if a[graph] == nil {
		a[graph] = map[string][]string{}
	}
	if !slices.Contains(a[graph][replica], node) {
		a[graph][replica] = append(a[graph][replica], node)
	}
}

// has reports whether a replica avoids a host.
func (a avoided) has(graph types.NamespacedName, replica, node string) bool {
	return slices.Contains(a[graph][replica], node)
}

// of returns the hosts that replicas of a graph avoid now, and forgets the hosts on which no pod is terminating any more.
func (a avoided) of(graph types.NamespacedName, c *topology.Cluster) map[string][]string {
	for replica, nodes := range a[graph] {
		nodes = slices.DeleteFunc(nodes, func(node string) bool { return len(c.LeavingOn(node)) == 0 })
		if a[graph][replica] = nodes; len(nodes) == 0 {
			delete(a[graph], replica)
		}
	}
	if len(a[graph]) == 0 {
		delete(a, graph)
	}
	return a[graph]
}
