// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Apart returns the shape for pods that need hosts of their own. The shape's views count hosts: a node holds one such pod or none, whatever
// other pods run on it. The views do not consider which hosts the pods have already taken, because pods of the same shape in other gangs
// may share a host with them.
func (s *Shape) Apart() *Shape {
	out := *s
	out.apart = true
	out.key = s.key + "|apart"
	return &out
}

// most limits how many pods of the shape a node holds.
func (s *Shape) most(fit int32) int32 {
	if s.apart {
		return min(fit, 1)
	}
	return fit
}
