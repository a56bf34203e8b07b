// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// avoided are hosts that preempted pods have not left in time for a gang, by graph and replica (see [gang.Of]). While pods are leaving such
// a host, the replica is placed on other hosts if these have capacity.
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

// of returns the hosts that replicas of a graph avoid now, and forgets the hosts that no pod is leaving any more.
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
