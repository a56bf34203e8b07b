// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// ReserveNode reserves a whole node under the name who. The node then takes no further pods, and explanations show the name. An empty name
// ends the reservation. Node reservations are independent of pod reservations ([Cluster.Assume]) and not part of any transaction.
func (c *Cluster) ReserveNode(node, who string) {
	n, ok := c.byName[node]
	if !ok || n.reservedFor == who {
		return
	}
	c.noteReserved(node, n.reservedFor)
	n.reservedFor = who
	c.tick++
	n.version = c.tick
	c.log.touch(n.id)
}
