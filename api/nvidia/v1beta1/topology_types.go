// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// SpecTopologyConstraint is the deployment-level constraint: one domain for all pods of the graph.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusterTopologyName) && self.clusterTopologyName.size() > 0",fieldPath=".clusterTopologyName",reason=FieldValueRequired,message="spec.topologyConstraint.clusterTopologyName is required when any topology constraint is set: name the ClusterTopology that defines the domains"
type SpecTopologyConstraint struct {
	// ClusterTopologyName is the name of the ClusterTopology that defines the levels. Required, also when only components set a
	// packDomain; every component inherits it.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterTopologyName string `json:"clusterTopologyName"`
	// PackDomain is the level inside one domain of which all pods of the graph must sit, e.g. "zone". Optional when a component
	// sets a constraint of its own.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a level narrower than packDomain that is tried first for the whole graph and never blocks it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
}

// TopologyConstraint is a component's own constraint, equal to or narrower than the deployment's.
//
// +kubebuilder:validation:XValidation:rule="has(self.packDomain) || has(self.preferredPackDomain)",fieldPath=".packDomain",reason=FieldValueRequired,message="topologyConstraint.packDomain is required: set packDomain (must) or preferredPackDomain (best effort)"
type TopologyConstraint struct {
	// PackDomain is the level inside one domain of which each replica of a multinode component, or all replicas of a single-node
	// component, must sit. Equal to or narrower than the deployment's.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a level narrower than packDomain that is tried first and never blocks.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
}
