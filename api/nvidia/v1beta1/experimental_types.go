// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// GraphExperimental holds settings of the graph that are subject to change.
type GraphExperimental struct {
	// KVTransferPolicy ties the decode workers of a request to the topology domain of its prefill worker.
	// +optional
	KVTransferPolicy *KVTransferPolicy `json:"kvTransferPolicy,omitempty"`
}

// KVTransferEnforcement is the enforcement of a transfer policy: required or preferred.
//
// +kubebuilder:validation:Enum=required;preferred
type KVTransferEnforcement string

// The enforcements.
const (
	KVTransferRequired  KVTransferEnforcement = "required"
	KVTransferPreferred KVTransferEnforcement = "preferred"
)

// KVTransferPolicy keeps KV cache transfers inside one domain.
//
// +kubebuilder:validation:XValidation:rule="has(self.labelKey) != has(self.clusterTopologyName)",message="exactly one of labelKey or clusterTopologyName is required"
// +kubebuilder:validation:XValidation:rule="!has(self.enforcement) || self.enforcement != 'preferred' || has(self.preferredWeight)",message="preferredWeight is required when enforcement is preferred"
// +kubebuilder:validation:XValidation:rule="!has(self.preferredWeight) || (has(self.enforcement) && self.enforcement == 'preferred')",message="preferredWeight may only be set when enforcement is preferred"
type KVTransferPolicy struct {
	// LabelKey is the key of the node label whose value is a worker's domain, e.g. topology.kubernetes.io/zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') || self.split('/')[0].size() <= 253",message="labelKey prefix must be 253 characters or less"
	// +optional
	LabelKey string `json:"labelKey,omitempty"`
	// ClusterTopologyName is the ClusterTopology that defines the level named domain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterTopologyName string `json:"clusterTopologyName,omitempty"`
	// Domain is the level's name, e.g. "rack".
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Domain string `json:"domain"`
	// Enforcement is required (decode only in the same domain) or preferred. Required when unset.
	// +optional
	Enforcement KVTransferEnforcement `json:"enforcement,omitempty"`
	// PreferredWeight from 0 to 1 is the weight of the same domain. Required with enforcement preferred, otherwise forbidden.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	PreferredWeight *float64 `json:"preferredWeight,omitempty"`
}

// ComponentExperimental holds settings of a component that are subject to change.
type ComponentExperimental struct {
	// GPUMemoryService shares GPU memory between engine processes. It is enabled if the field is present.
	// +optional
	GPUMemoryService *GPUMemoryService `json:"gpuMemoryService,omitempty"`
	// Failover keeps shadow engines ready to take over. It is enabled if the field is present.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// Grove holds options of the Grove provider.
	// +optional
	Grove *GroveOptions `json:"grove,omitempty"`
	// Checkpoint settings, kept as written.
	// +optional
	Checkpoint *FreeObject `json:"checkpoint,omitempty"`
}

// GroveOptions are options of the Grove provider.
type GroveOptions struct {
	// ForceScalingGroup renders a single-node component as a PodCliqueScalingGroup.
	// +optional
	ForceScalingGroup bool `json:"forceScalingGroup,omitempty"`
}

// GPUMemoryService keeps weights and caches in a separate process, so that engines can share them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.extraClientContainers) || size(self.extraClientContainers) == 0 || self.mode == 'IntraPod'",message="extraClientContainers is only supported with mode=IntraPod"
// +kubebuilder:validation:XValidation:rule="!has(self.extraClientPods) || size(self.extraClientPods) == 0 || self.mode == 'InterPod'",message="extraClientPods is only supported with mode=InterPod"
// +kubebuilder:validation:XValidation:rule="!has(self.extraClientPods) || size(self.extraClientPods) == 0",message="extraClientPods is reserved for inter-pod GMS and is not implemented yet"
type GPUMemoryService struct {
	// Mode is IntraPod (alongside the engine) or InterPod (in a separate pod).
	// +kubebuilder:validation:Enum=IntraPod;InterPod
	// +kubebuilder:default=IntraPod
	// +optional
	Mode string `json:"mode,omitempty"`
	// DeviceClassName of the claimed devices.
	// +kubebuilder:default=gpu.nvidia.com
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DeviceClassName string `json:"deviceClassName,omitempty"`
	// ExtraClientContainers are further containers with the devices.
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=atomic
	// +optional
	ExtraClientContainers []string `json:"extraClientContainers,omitempty"`
	// ExtraClientPods are further pods with the devices: reserved and refused.
	// +listType=atomic
	// +optional
	ExtraClientPods []FreeObject `json:"extraClientPods,omitempty"`
}

// Failover keeps shadow engines that take over when the active engine fails.
type Failover struct {
	// Mode is IntraPod (shadows in the same pod) or InterPod (shadows in separate pods).
	// +kubebuilder:validation:Enum=IntraPod;InterPod
	// +kubebuilder:default=IntraPod
	// +optional
	Mode string `json:"mode,omitempty"`
	// NumShadows is the number of shadow engines; only 1 is allowed.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1
	// +optional
	NumShadows int32 `json:"numShadows,omitempty"`
}
