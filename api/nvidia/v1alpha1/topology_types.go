// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SpecTopologyConstraint is the deployment-level constraint: one domain for all pods of the graph.
//
// +kubebuilder:validation:XValidation:rule="has(self.topologyProfile) && self.topologyProfile.size() > 0",fieldPath=".topologyProfile",reason=FieldValueRequired,message="spec.topologyConstraint.topologyProfile is required when any topology constraint is set: name the ClusterTopology that defines the domains"
type SpecTopologyConstraint struct {
	// TopologyProfile is the ClusterTopology that defines the levels. Required; every service inherits it.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TopologyProfile string `json:"topologyProfile"`
	// PackDomain is the level at which all pods of the graph must share one domain.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a narrower level; best effort.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
	// SpreadDomain applies to services without any spread domain.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SpreadDomain string `json:"spreadDomain,omitempty"`
	// PreferredSpreadDomain applies to services without any spread domain.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredSpreadDomain string `json:"preferredSpreadDomain,omitempty"`
}

// ServiceTopologyConstraint is a service's own constraint, equal to or narrower than the deployment's.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topologyProfile)",fieldPath=".topologyProfile",reason=FieldValueForbidden,message="topologyProfile must not be set on a service: set it once at spec.topologyConstraint.topologyProfile, every service inherits it"
// +kubebuilder:validation:XValidation:rule="has(self.packDomain) || has(self.preferredPackDomain) || has(self.spreadDomain) || has(self.preferredSpreadDomain)",fieldPath=".packDomain",reason=FieldValueRequired,message="topologyConstraint.packDomain is required: set packDomain (must) or preferredPackDomain (best effort)"
type ServiceTopologyConstraint struct {
	// TopologyProfile is refused on a service; set it in spec.topologyConstraint.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TopologyProfile string `json:"topologyProfile,omitempty"`
	// PackDomain is the level at which each multinode replica, or all other replicas, must share one domain.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a narrower level; best effort.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
	// SpreadDomain is the level over which replicas spread: the numbers of replicas in its domains differ by at most 1.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SpreadDomain string `json:"spreadDomain,omitempty"`
	// PreferredSpreadDomain is the level over which replicas spread as far as capacity allows.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredSpreadDomain string `json:"preferredSpreadDomain,omitempty"`
}
