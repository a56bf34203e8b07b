// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// ReserveNode reserves a whole node for someone: further pods stay off it, and an explanation names who. An empty name ends that. It is
// independent of the reservations of single pods ([Cluster.Assume]) and not part of any transaction.
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
