// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Kinds that describe a hierarchy of nodes. The operator reads Grove's ClusterTopologyBinding as a ClusterTopology (package
// topologybinding).
const (
	KindClusterTopology        = "ClusterTopology"
	KindClusterTopologyBinding = "ClusterTopologyBinding"
)

// FromBinding reports whether a topology was read from a ClusterTopologyBinding. Such a topology has no status, and the operator does not
// write it.
func (ct *ClusterTopology) FromBinding() bool {
	return ct != nil && ct.Kind == KindClusterTopologyBinding
}

// Source returns the kind of the object from which a topology was read, for messages and references.
func (ct *ClusterTopology) Source() string {
	if ct.FromBinding() {
		return KindClusterTopologyBinding
	}
	return KindClusterTopology
}
