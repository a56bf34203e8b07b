// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// ComponentType chooses the defaults of a component.
//
// +kubebuilder:validation:Enum=frontend;worker;prefill;decode;planner;epp
type ComponentType string

// The component types.
const (
	ComponentTypeFrontend ComponentType = "frontend"
	ComponentTypeWorker   ComponentType = "worker"
	ComponentTypePrefill  ComponentType = "prefill"
	ComponentTypeDecode   ComponentType = "decode"
	ComponentTypePlanner  ComponentType = "planner"
	ComponentTypeEPP      ComponentType = "epp"
)

// MainContainerName is the name of the podTemplate's container that runs Dynamo. All other containers are the user's.
const MainContainerName = "main"

// Upper bounds in the schema. Objects stored by earlier releases keep larger values.
const (
	// MaxReplicas is the maximum number of replicas of one component.
	MaxReplicas = 65536
	// MaxNodeCount is the maximum number of pods of one replica.
	MaxNodeCount = 4096
)

// ComponentSpec is one component of a graph.
//
// +kubebuilder:validation:XValidation:rule="has(self.topologyConstraint) == has(oldSelf.topologyConstraint) && (!has(self.topologyConstraint) || self.topologyConstraint == oldSelf.topologyConstraint)",fieldPath=".topologyConstraint",reason=FieldValueForbidden,message="topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
// +kubebuilder:validation:XValidation:rule="has(self.multinode) == has(oldSelf.multinode)",fieldPath=".multinode",reason=FieldValueForbidden,message="cannot change node topology (between single-node and multi-node) after creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.type) || (has(self.type) && self.type == oldSelf.type)",fieldPath=".type",reason=FieldValueForbidden,message="type is immutable after it is set"
// +kubebuilder:validation:XValidation:rule="!has(self.eppConfig) || (has(self.type) && self.type == 'epp') || (oldSelf.hasValue() && has(oldSelf.value().eppConfig) && !(has(oldSelf.value().type) && oldSelf.value().type == 'epp'))",optionalOldSelf=true,fieldPath=".eppConfig",reason=FieldValueForbidden,message="eppConfig may only be set when type is epp"
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || (has(self.replicas) && self.replicas == 0) || self.minAvailable <= (has(self.replicas) ? self.replicas : 1) || (oldSelf.hasValue() && has(oldSelf.value().minAvailable) && has(oldSelf.value().replicas) && oldSelf.value().replicas != 0 && oldSelf.value().minAvailable > oldSelf.value().replicas)",optionalOldSelf=true,fieldPath=".minAvailable",message="minAvailable must be less than or equal to replicas unless replicas is 0"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.minAvailable) || (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",fieldPath=".minAvailable",reason=FieldValueForbidden,message="minAvailable is immutable after creation"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.name.size() <= 63 && self.name.matches('^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$')",optionalOldSelf=true,fieldPath=".name",message="a component name must have 1 to 63 letters, digits or '-', and begin and end with a letter or digit: the name becomes a label and a part of the names of the component's pods"
type ComponentSpec struct {
	// Name of the component, unique in the graph: at most 63 letters, digits and '-'. Names written in v1alpha1 may also contain '.'.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Type chooses the defaults: frontend, worker, prefill, decode, planner or epp. Without a type, there are no defaults. Immutable once
	// set.
	// +optional
	Type ComponentType `json:"type,omitempty"`
	// RuntimeVersionOverride is the version of the Dynamo runtime in the main image, if the image's tag does not contain it.
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`
	// +optional
	RuntimeVersionOverride string `json:"runtimeVersionOverride,omitempty"`
	// GlobalDynamoNamespace puts the component into the Dynamo namespace shared by all graphs.
	// +optional
	GlobalDynamoNamespace bool `json:"globalDynamoNamespace,omitempty"`
	// PodTemplate of the component's pods. The container named main runs Dynamo and gets the defaults of the component's type; all other
	// containers are the user's.
	// +optional
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
	// Replicas of the component, 0 or more. A replica of a multinode component is nodeCount pods.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65536
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// MinAvailable is the number of replicas in the base gang, 1 or more. Immutable, and at most replicas unless replicas is 0.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Multinode makes each replica span several nodes: one leader and nodeCount-1 workers. It cannot be added or removed later.
	// +optional
	Multinode *MultinodeSpec `json:"multinode,omitempty"`
	// Roles of the pods of a multinode component: a list of both leader and worker, in any order, or no list. Without a list, the roles
	// follow from multinode.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Roles []ComponentRole `json:"roles,omitzero"`
	// SharedMemorySize is the size of /dev/shm in bytes, as a quantity. It counts as memory of the container. 8Gi when unset; "0" omits the
	// volume.
	// +optional
	SharedMemorySize *resource.Quantity `json:"sharedMemorySize,omitempty"`
	// ModelRef names the model the component serves; pods of one model are found through one headless Service.
	// +optional
	ModelRef *ModelReference `json:"modelRef,omitempty"`
	// ScalingAdapter delegates replicas to a DynamoGraphDeploymentScalingAdapter, which starts with the value of replicas. An empty object
	// enables it.
	// +optional
	ScalingAdapter *ScalingAdapter `json:"scalingAdapter,omitempty"`
	// EPPConfig configures an endpoint picker (type epp).
	// +optional
	EPPConfig *EPPConfig `json:"eppConfig,omitempty"`
	// FrontendSidecar is the name of the container of podTemplate that runs a frontend alongside the main container.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	FrontendSidecar string `json:"frontendSidecar,omitempty"`
	// CompilationCache is the PersistentVolumeClaim for the framework's compiled kernels.
	// +optional
	CompilationCache *CompilationCache `json:"compilationCache,omitempty"`
	// TopologyConstraint of the component. Immutable.
	// +optional
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
	// ProviderOverride configures the object that the workload provider creates for the component.
	// +optional
	ProviderOverride *ProviderOverride `json:"providerOverride,omitempty"`
	// Experimental settings of the component; subject to change.
	// +optional
	Experimental *ComponentExperimental `json:"experimental,omitempty"`
}

// FreeObject is any JSON object, kept as written.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:Type=object
type FreeObject struct {
	runtime.RawExtension `json:",inline"`
}

// ProviderOverride is a fragment of the schema of a workload provider.
type ProviderOverride struct {
	// APIVersion of the provider's schema, e.g. grove.io/v1alpha1.
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// Target is the kind or the schema of value. Optional if only one exists.
	// +optional
	Target string `json:"target,omitempty"`
	// Value is the fragment, kept as written.
	Value FreeObject `json:"value"`
}

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

// ModelReference names a model.
type ModelReference struct {
	// Name of the model.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Revision of the model.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// ScalingAdapter delegates a component's replicas to an adapter object with a scale subresource. It has no fields.
type ScalingAdapter struct{}

// EPPConfig configures an endpoint picker. Exactly one field is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.config)",message="exactly one of configMapRef or config must be specified"
type EPPConfig struct {
	// ConfigMapRef is the key of a ConfigMap that holds the configuration.
	// +optional
	ConfigMapRef *corev1.ConfigMapKeySelector `json:"configMapRef,omitempty"`
	// Config is the configuration itself, kept as written.
	// +optional
	Config *FreeObject `json:"config,omitempty"`
}

// CompilationCache is a PersistentVolumeClaim for compiled kernels.
type CompilationCache struct {
	// PVCName is the name of the claim in the graph's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PVCName string `json:"pvcName"`
	// MountPath is the absolute path in the main container. Default: the framework's cache path.
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}
