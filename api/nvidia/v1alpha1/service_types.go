// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Component types with defaults. Any other text is accepted and has no defaults.
const (
	ComponentTypeFrontend = "frontend"
	ComponentTypeWorker   = "worker"
	ComponentTypePrefill  = "prefill"
	ComponentTypeDecode   = "decode"
	ComponentTypePlanner  = "planner"
	ComponentTypeEPP      = "epp"
)

// ServiceSpec is one service of a graph. A service without a value (null) has all defaults.
//
// +kubebuilder:validation:XValidation:rule="has(self.topologyConstraint) == has(oldSelf.topologyConstraint) && (!has(self.topologyConstraint) || self.topologyConstraint == oldSelf.topologyConstraint)",fieldPath=".topologyConstraint",reason=FieldValueForbidden,message="topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || (has(self.replicas) && self.replicas == 0) || self.minAvailable <= (has(self.replicas) ? self.replicas : 1) || (oldSelf.hasValue() && has(oldSelf.value().minAvailable) && has(oldSelf.value().replicas) && oldSelf.value().replicas != 0 && oldSelf.value().minAvailable > oldSelf.value().replicas)",optionalOldSelf=true,fieldPath=".minAvailable",message="minAvailable must be less than or equal to replicas unless replicas is 0"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.minAvailable) || (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",fieldPath=".minAvailable",reason=FieldValueForbidden,message="minAvailable is immutable after creation"
// +kubebuilder:validation:XValidation:rule="has(self.multinode) == has(oldSelf.multinode)",fieldPath=".multinode",reason=FieldValueForbidden,message="cannot change node topology (between single-node and multi-node) after creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.componentType) || oldSelf.componentType.size() == 0 || (has(self.componentType) && self.componentType == oldSelf.componentType)",fieldPath=".componentType",reason=FieldValueForbidden,message="componentType is immutable after it is set"
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
	// ComponentType chooses the defaults: frontend, worker, prefill, decode, planner and epp have defaults; any other label value (e.g.
	// main, default or an empty value) has no defaults. Immutable once set.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	// +optional
	ComponentType string `json:"componentType,omitempty"`
	// SubComponentType of a worker: prefill or decode. A label value.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	// +optional
	SubComponentType string `json:"subComponentType,omitempty"`
	// DynamoNamespace is deprecated and ignored: the Dynamo namespace follows from the graph's namespace and name.
	// +optional
	DynamoNamespace *string `json:"dynamoNamespace,omitempty"`
	// GlobalDynamoNamespace puts the service into the Dynamo namespace shared by all graphs.
	// +optional
	GlobalDynamoNamespace bool `json:"globalDynamoNamespace,omitempty"`
	// Resources of the main container. Every amount is a string.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Autoscaling is deprecated and ignored; use scalingAdapter.
	// +optional
	Autoscaling *FreeObject `json:"autoscaling,omitempty"`
	// Envs of the main container. They override spec.envs and mainContainer.env.
	// +listType=atomic
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
	// EnvFromSecret names a Secret whose keys become environment variables of the main container.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EnvFromSecret *string `json:"envFromSecret,omitempty"`
	// VolumeMounts of claims listed in spec.pvcs.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`
	// Ingress to the service (frontend only).
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`
	// ModelRef names the model the service serves; pods of one model are found through one headless Service.
	// +optional
	ModelRef *ModelReference `json:"modelRef,omitempty"`
	// SharedMemory is the size of /dev/shm. 8Gi when unset.
	// +optional
	SharedMemory *SharedMemorySpec `json:"sharedMemory,omitempty"`
	// ExtraPodMetadata is merged into the pods' metadata.
	// +optional
	ExtraPodMetadata *ExtraPodMetadata `json:"extraPodMetadata,omitempty"`
	// ExtraPodSpec is merged into the pods' spec.
	// +optional
	ExtraPodSpec *ExtraPodSpec `json:"extraPodSpec,omitempty"`
	// LivenessProbe of the main container. It replaces the default probe and the probe of mainContainer entirely.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe of the main container. It replaces the default probe and the probe of mainContainer entirely.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// Replicas of the service, 0 to 65536. A replica of a multinode service is nodeCount pods.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Maximum=65536
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="replicas must be non-negative"
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// MinAvailable is the number of replicas in the base gang, 1 or more. Immutable, and at most replicas unless replicas is 0. From Dynamo
	// 1.5.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Multinode makes each replica span several nodes: one leader and nodeCount-1 workers. It cannot be added or removed later.
	// +optional
	Multinode *MultinodeSpec `json:"multinode,omitempty"`
	// Roles of the pods of a multinode service: a list of both leader and worker, in any order, or no list. Without a list, the roles
	// follow from multinode. From Dynamo 1.5.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Roles []v1beta1.ComponentRole `json:"roles,omitzero"`
	// ScalingAdapter delegates replicas to a DynamoGraphDeploymentScalingAdapter, which starts with the value of replicas.
	// +optional
	ScalingAdapter *ScalingAdapter `json:"scalingAdapter,omitempty"`
	// EPPConfig configures an endpoint picker (componentType epp).
	// +optional
	EPPConfig *EPPConfig `json:"eppConfig,omitempty"`
	// FrontendSidecar runs a frontend alongside the main container of each pod.
	// +optional
	FrontendSidecar *FrontendSidecar `json:"frontendSidecar,omitempty"`
	// Checkpoint settings, kept as written.
	// +optional
	Checkpoint *FreeObject `json:"checkpoint,omitempty"`
	// GPUMemoryService shares GPU memory between engine processes.
	// +optional
	GPUMemoryService *GPUMemoryService `json:"gpuMemoryService,omitempty"`
	// Failover keeps shadow engines ready to take over.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
	// TopologyConstraint of the service. Immutable.
	// +optional
	TopologyConstraint *ServiceTopologyConstraint `json:"topologyConstraint,omitempty"`
	// ProviderOverride is a fragment of the provider's object, from Dynamo 1.5. Grove uses its topology constraint.
	// +optional
	ProviderOverride *FreeObject `json:"providerOverride,omitempty"`
	// RuntimeVersionOverride is the runtime version if the image tag does not contain it. From Dynamo 1.5.
	// +optional
	RuntimeVersionOverride string `json:"runtimeVersionOverride,omitempty"`
	// PVC is the single claim of manifests before Dynamo 0.7. It is ignored; use volumeMounts.
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

// VolumeMount mounts a claim listed in spec.pvcs.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mountPoint) && self.mountPoint.size() > 0) || (has(self.useAsCompilationCache) && self.useAsCompilationCache)",fieldPath=".mountPoint",reason=FieldValueRequired,message="mountPoint is required when useAsCompilationCache is false"
type VolumeMount struct {
	// Name of the claim.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// MountPoint is the absolute path in the main container. Optional for a compilation cache; default: the framework's cache path.
	// +optional
	MountPoint string `json:"mountPoint,omitempty"`
	// UseAsCompilationCache uses the claim for the framework's compiled kernels.
	// +optional
	UseAsCompilationCache bool `json:"useAsCompilationCache,omitempty"`
}

// ModelReference names a model.
type ModelReference struct {
	// Name of the model.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Revision of the model.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// Upper bounds in the schema. Objects stored by earlier releases keep larger values.
const (
	// MaxReplicas is the maximum number of replicas of one service.
	MaxReplicas = 65536
	// MaxNodeCount is the maximum number of pods of one replica.
	MaxNodeCount = 4096
)

// MultinodeSpec is the number of nodes of a replica.
type MultinodeSpec struct {
	// NodeCount is the number of pods of one replica: one leader and the workers. 2 to 4096; it may be changed.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=4096
	// +optional
	NodeCount int32 `json:"nodeCount,omitempty"`
	// Leader is deprecated and cannot be added: use the leader's providerOverride in roles.
	// +optional
	Leader *FreeObject `json:"leader,omitempty"`
	// Worker is deprecated and cannot be added: use the workers' providerOverride in roles.
	// +optional
	Worker *FreeObject `json:"worker,omitempty"`
}

// ScalingAdapter delegates a service's replicas to an adapter object with a scale subresource.
type ScalingAdapter struct {
	// Enabled creates the adapter. An empty scalingAdapter is disabled.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}
