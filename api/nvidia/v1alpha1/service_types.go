// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	corev1 "k8s.io/api/core/v1"
)

// Component types that have defaults of their own. Any other text is accepted and gets none.
const (
	ComponentTypeFrontend = "frontend"
	ComponentTypeWorker   = "worker"
	ComponentTypePrefill  = "prefill"
	ComponentTypeDecode   = "decode"
	ComponentTypePlanner  = "planner"
	ComponentTypeEPP      = "epp"
)

// ServiceSpec is one service of a graph.
type ServiceSpec struct {
	// Annotations of the service's objects.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the service's objects.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// ServiceName is ignored: the key in spec.services is the name.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// ComponentType chooses the defaults, e.g. frontend, worker, prefill, decode, planner, epp.
	// +optional
	ComponentType string `json:"componentType,omitempty"`
	// SubComponentType of a worker: prefill or decode.
	// +optional
	SubComponentType string `json:"subComponentType,omitempty"`
	// DynamoNamespace is deprecated and ignored.
	// +optional
	DynamoNamespace *string `json:"dynamoNamespace,omitempty"`
	// GlobalDynamoNamespace puts the service into the Dynamo namespace shared by all graphs.
	// +optional
	GlobalDynamoNamespace bool `json:"globalDynamoNamespace,omitempty"`
	// Resources of the main container. Every leaf is a string.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Autoscaling is deprecated and ignored.
	// +optional
	Autoscaling *FreeObject `json:"autoscaling,omitempty"`
	// Envs of the main container.
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
	// EnvFromSecret names a Secret whose keys become variables of the main container.
	// +optional
	EnvFromSecret *string `json:"envFromSecret,omitempty"`
	// VolumeMounts of claims listed in spec.pvcs.
	// +optional
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`
	// Ingress to the service (frontend only).
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`
	// ModelRef names the model the service serves.
	// +optional
	ModelRef *ModelReference `json:"modelRef,omitempty"`
	// SharedMemory at /dev/shm.
	// +optional
	SharedMemory *SharedMemorySpec `json:"sharedMemory,omitempty"`
	// ExtraPodMetadata is merged into the pods' metadata.
	// +optional
	ExtraPodMetadata *ExtraPodMetadata `json:"extraPodMetadata,omitempty"`
	// ExtraPodSpec is merged into the pods' spec.
	// +optional
	ExtraPodSpec *ExtraPodSpec `json:"extraPodSpec,omitempty"`
	// LivenessProbe of the main container.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe of the main container.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// Replicas of the service.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// MinAvailable replicas (Grove only).
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Multinode makes each replica span several nodes: one leader and nodeCount-1 workers.
	// +optional
	Multinode *MultinodeSpec `json:"multinode,omitempty"`
	// ScalingAdapter hands replicas over to a DynamoGraphDeploymentScalingAdapter.
	// +optional
	ScalingAdapter *ScalingAdapter `json:"scalingAdapter,omitempty"`
	// EPPConfig configures an endpoint picker (componentType epp).
	// +optional
	EPPConfig *EPPConfig `json:"eppConfig,omitempty"`
	// FrontendSidecar runs a frontend beside each pod of the service.
	// +optional
	FrontendSidecar *FrontendSidecar `json:"frontendSidecar,omitempty"`
	// Checkpoint settings.
	// +optional
	Checkpoint *FreeObject `json:"checkpoint,omitempty"`
	// GPUMemoryService shares GPU memory between pods.
	// +optional
	GPUMemoryService *GPUMemoryService `json:"gpuMemoryService,omitempty"`
	// Failover keeps shadow replicas.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// TopologyConstraint of the service, equal to or narrower than the deployment's. Immutable.
	// +optional
	TopologyConstraint *ServiceTopologyConstraint `json:"topologyConstraint,omitempty"`
	// ProviderOverride carries settings for another operator's workload provider.
	// +optional
	ProviderOverride *FreeObject `json:"providerOverride,omitempty"`
	// RuntimeVersionOverride is the runtime version when the image tag does not say it.
	// +optional
	RuntimeVersionOverride string `json:"runtimeVersionOverride,omitempty"`
	// PVC is the removed single-claim field of old manifests; use volumeMounts.
	// +optional
	PVC *FreeObject `json:"pvc,omitempty"`
}

// FreeObject is any JSON object, kept as written.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:Type=object
type FreeObject struct {
	runtime.RawExtension `json:",inline"`
}

// Resources of the main container.
type Resources struct {
	// Requests of the container.
	// +optional
	Requests *ResourceItem `json:"requests,omitempty"`
	// Limits of the container.
	// +optional
	Limits *ResourceItem `json:"limits,omitempty"`
	// Claims of the container among the pod's resource claims.
	// +optional
	Claims []corev1.ResourceClaim `json:"claims,omitempty"`
}

// ResourceItem lists amounts as strings in Kubernetes quantity notation.
type ResourceItem struct {
	// CPU, e.g. "4" or "500m".
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory, e.g. "16Gi".
	// +optional
	Memory string `json:"memory,omitempty"`
	// GPU count; counted under gpuType.
	// +optional
	GPU string `json:"gpu,omitempty"`
	// GPUType is the resource name GPUs are counted under. Default nvidia.com/gpu.
	// +optional
	GPUType string `json:"gpuType,omitempty"`
	// Custom resources by name, e.g. "rdma/ib".
	// +optional
	Custom map[string]string `json:"custom,omitempty"`
}

// VolumeMount mounts a claim listed in spec.pvcs.
type VolumeMount struct {
	// Name of the claim.
	Name string `json:"name"`
	// MountPoint in the main container.
	// +optional
	MountPoint string `json:"mountPoint,omitempty"`
	// UseAsCompilationCache keeps the framework's compiled kernels there.
	// +optional
	UseAsCompilationCache bool `json:"useAsCompilationCache,omitempty"`
}

// IngressSpec exposes a frontend.
type IngressSpec struct {
	// Enabled makes the Ingress.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Host name, without suffix.
	// +optional
	Host string `json:"host,omitempty"`
	// UseVirtualService asks for an Istio VirtualService.
	// +optional
	UseVirtualService bool `json:"useVirtualService,omitempty"`
	// VirtualServiceGateway of the VirtualService.
	// +optional
	VirtualServiceGateway *string `json:"virtualServiceGateway,omitempty"`
	// HostPrefix goes before host.
	// +optional
	HostPrefix *string `json:"hostPrefix,omitempty"`
	// HostSuffix goes after host. Default "local".
	// +optional
	HostSuffix *string `json:"hostSuffix,omitempty"`
	// Annotations of the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Ingress.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// TLS of the Ingress.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`
	// IngressControllerClassName is the ingress class.
	// +optional
	IngressControllerClassName *string `json:"ingressControllerClassName,omitempty"`
}

// IngressTLSSpec names the certificate of an Ingress.
type IngressTLSSpec struct {
	// SecretName of the certificate.
	// +optional
	SecretName string `json:"secretName,omitempty"`
}

// ModelReference names a model.
type ModelReference struct {
	// Name of the model.
	Name string `json:"name"`
	// Revision of the model.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// SharedMemorySpec sizes /dev/shm.
type SharedMemorySpec struct {
	// Disabled removes the volume.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// Size of the volume. Default 8Gi.
	// +optional
	Size resource.Quantity `json:"size,omitempty"`
}

// MultinodeSpec is how many nodes a replica spans.
type MultinodeSpec struct {
	// NodeCount is the number of pods of one replica: one leader and the rest workers.
	// +kubebuilder:default=2
	NodeCount int32 `json:"nodeCount"`
}

// ScalingAdapter hands a service's replicas over to an adapter object with a scale subresource.
type ScalingAdapter struct {
	// Enabled makes the adapter. An empty scalingAdapter is disabled.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// EPPConfig configures an endpoint picker: exactly one of the two.
type EPPConfig struct {
	// ConfigMapRef holds the configuration.
	// +optional
	ConfigMapRef *corev1.ConfigMapKeySelector `json:"configMapRef,omitempty"`
	// Config is the configuration itself.
	// +optional
	Config *FreeObject `json:"config,omitempty"`
}

// FrontendSidecar is a frontend container beside the main one.
type FrontendSidecar struct {
	// Image of the sidecar.
	Image string `json:"image"`
	// Args of the sidecar.
	// +optional
	Args []string `json:"args,omitempty"`
	// EnvFromSecret names a Secret whose keys become variables.
	// +optional
	EnvFromSecret *string `json:"envFromSecret,omitempty"`
	// Envs of the sidecar.
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
}

// GPUMemoryService settings.
type GPUMemoryService struct {
	// Enabled turns it on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Mode is intraPod or interPod.
	// +optional
	Mode string `json:"mode,omitempty"`
	// DeviceClassName of the claimed devices.
	// +optional
	DeviceClassName string `json:"deviceClassName,omitempty"`
	// ExtraClientContainers that also get the devices.
	// +optional
	ExtraClientContainers []string `json:"extraClientContainers,omitempty"`
}

// Failover settings.
type Failover struct {
	// Enabled turns it on.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Mode is intraPod or interPod.
	// +optional
	Mode string `json:"mode,omitempty"`
	// NumShadows is the number of shadow replicas.
	// +optional
	NumShadows int32 `json:"numShadows,omitempty"`
}
