// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Apart returns the shape for pods of a gang that must run on different hosts. The shape's views count hosts: a node holds at most one such
// pod, whatever other pods run on it. A host counts even if pods of the shape already run there, because pods of different gangs may share
// a host.
func (s *Shape) Apart() *Shape {
	out := *s
	out.apart = true
	out.key = s.key + "|apart"
	return &out
}

// most limits fit, the number of pods of the shape that fit on a node, to one pod if the shape comes from [Shape.Apart].
func (s *Shape) most(fit int32) int32 {
	if s.apart {
		return min(fit, 1)
	}
	return fit
}
