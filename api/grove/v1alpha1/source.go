// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Kinds that describe a hierarchy of nodes. Grove's ClusterTopologyBinding is read as a ClusterTopology (package topologybinding).
const (
	KindClusterTopology        = "ClusterTopology"
	KindClusterTopologyBinding = "ClusterTopologyBinding"
)

// FromBinding reports whether a topology was read from a ClusterTopologyBinding. It has no status, and nothing of it is written.
func (ct *ClusterTopology) FromBinding() bool {
	return ct != nil && ct.Kind == KindClusterTopologyBinding
}

// Source is the kind of the object that a topology was read from, for messages and references.
func (ct *ClusterTopology) Source() string {
	if ct.FromBinding() {
		return KindClusterTopologyBinding
	}
	return KindClusterTopology
}
