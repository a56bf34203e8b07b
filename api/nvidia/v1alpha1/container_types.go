// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources of the main container.
type Resources struct {
	// Requests of the container.
	// +optional
	Requests *ResourceItem `json:"requests,omitempty"`
	// Limits of the container.
	// +optional
	Limits *ResourceItem `json:"limits,omitempty"`
	// Claims of the container among the pod's resource claims.
	// +listType=atomic
	// +optional
	Claims []corev1.ResourceClaim `json:"claims,omitempty"`
}

// ResourceItem lists amounts as Kubernetes quantities. The schema also limits exponents to two digits: Go programs take minutes to parse
// longer exponents.
type ResourceItem struct {
	// CPU in cores, e.g. "4" or "500m".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?)?$`
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory in bytes, e.g. "16Gi".
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?)?$`
	// +optional
	Memory string `json:"memory,omitempty"`
	// GPU is the number of GPUs of each pod, as the resource named by gpuType.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?)?$`
	// +optional
	GPU string `json:"gpu,omitempty"`
	// GPUType is the resource name of the GPUs. Default nvidia.com/gpu.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	GPUType string `json:"gpuType,omitempty"`
	// Custom resources by name, e.g. "rdma/ib": "1".
	// +optional
	Custom map[string]string `json:"custom,omitempty"`
}

// SharedMemorySpec sizes /dev/shm.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(self.disabled) || !self.disabled || self.size == 0 || self.size == '0'",fieldPath=".size",reason=FieldValueForbidden,message="sharedMemory.size must not be set when sharedMemory.disabled is true"
// +kubebuilder:validation:XValidation:rule="(has(self.disabled) && self.disabled) || (has(self.size) && self.size != 0 && self.size != '0')",fieldPath=".size",reason=FieldValueRequired,message="sharedMemory.size is required when disabled is false, and must be greater than 0"
type SharedMemorySpec struct {
	// Disabled omits the volume.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// Size of the volume in bytes, as a quantity. It counts as memory of the container.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
}

// EPPConfig configures an endpoint picker. Exactly one field is set.
type EPPConfig struct {
	// ConfigMapRef is the key of a ConfigMap that holds the configuration.
	// +optional
	ConfigMapRef *corev1.ConfigMapKeySelector `json:"configMapRef,omitempty"`
	// Config is the configuration itself, kept as written.
	// +optional
	Config *FreeObject `json:"config,omitempty"`
}

// FrontendSidecar is a frontend container alongside the main container.
type FrontendSidecar struct {
	// Image of the sidecar.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Args of the sidecar.
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`
	// EnvFromSecret names a Secret whose keys become environment variables.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EnvFromSecret *string `json:"envFromSecret,omitempty"`
	// Envs of the sidecar.
	// +listType=atomic
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
}

// GPUMemoryService keeps weights and caches in a separate process, so that engines can share them.
type GPUMemoryService struct {
	// Enabled enables the service.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Mode is intraPod (alongside the engine) or interPod (in a separate pod).
	// +kubebuilder:validation:Enum=intraPod;interPod
	// +kubebuilder:default=intraPod
	// +optional
	Mode string `json:"mode,omitempty"`
	// DeviceClassName of the claimed devices.
	// +kubebuilder:default=gpu.nvidia.com
	// +kubebuilder:validation:MaxLength=253
	// +optional
	DeviceClassName string `json:"deviceClassName,omitempty"`
	// ExtraClientContainers are further containers with the devices. From Dynamo 1.5.
	// +listType=atomic
	// +optional
	ExtraClientContainers []string `json:"extraClientContainers,omitempty"`
	// ExtraClientPods are further pods with the devices. From Dynamo 1.5, reserved: the field is kept as written, and not acted on.
	// +listType=atomic
	// +optional
	ExtraClientPods []FreeObject `json:"extraClientPods,omitempty"`
}

// Failover keeps shadow engines that take over when the active engine fails.
type Failover struct {
	// Enabled enables failover.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Mode is intraPod (shadows in the same pod) or interPod (shadows in separate pods).
	// +kubebuilder:validation:Enum=intraPod;interPod
	// +kubebuilder:default=intraPod
	// +optional
	Mode string `json:"mode,omitempty"`
	// NumShadows is the number of shadow engines, 1 or more.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumShadows int32 `json:"numShadows,omitempty"`
}
