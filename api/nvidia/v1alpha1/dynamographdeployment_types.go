// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoGraphDeploymentSpec is an inference graph: its services and their topology constraints.
//
// Rules on immutable settings (the set of services, the constraints) apply to new objects only, so that older objects can still be scaled.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.restart)",optionalOldSelf=true,fieldPath=".restart",reason=FieldValueForbidden,message="spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then set it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.topologyConstraint) || self.services.all(name, !has(self.services[name].topologyConstraint))",optionalOldSelf=true,fieldPath=".topologyConstraint",reason=FieldValueRequired,message="spec.topologyConstraint with topologyProfile is required when any topology constraint is set (at spec or service level)"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.topologyConstraint) || has(self.topologyConstraint.packDomain) || has(self.topologyConstraint.preferredPackDomain) || has(self.topologyConstraint.spreadDomain) || has(self.topologyConstraint.preferredSpreadDomain) || self.services.exists(name, has(self.services[name].topologyConstraint))",optionalOldSelf=true,fieldPath=".topologyConstraint.packDomain",reason=FieldValueRequired,message="packDomain is required when no service sets a topologyConstraint"
// +kubebuilder:validation:XValidation:rule="has(self.topologyConstraint) == has(oldSelf.topologyConstraint) && (!has(self.topologyConstraint) || self.topologyConstraint == oldSelf.topologyConstraint)",fieldPath=".topologyConstraint",reason=FieldValueForbidden,message="spec.topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
// +kubebuilder:validation:XValidation:rule="has(self.backendFramework) == has(oldSelf.backendFramework) && (!has(self.backendFramework) || self.backendFramework == oldSelf.backendFramework)",fieldPath=".backendFramework",reason=FieldValueForbidden,message="spec.backendFramework is immutable and cannot be changed after creation"
// +kubebuilder:validation:XValidation:rule="!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || self.restart.strategy.order.all(name, name in self.services)",fieldPath=".restart.strategy.order",message="order contains unknown service: every entry must be a key of spec.services"
// +kubebuilder:validation:XValidation:rule="!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || self.restart.strategy.order.size() == 0 || self.restart.strategy.order.size() == self.services.size()",fieldPath=".restart.strategy.order",message="order must have the same number of unique services as the deployment"
type DynamoGraphDeploymentSpec struct {
	// Annotations of every object created for the graph. A service's own annotations override them.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of every object created for the graph. A service's own labels override them.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// PVCs are the PersistentVolumeClaims that services may mount by name; at most 100, names unique.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	PVCs []PVC `json:"pvcs,omitempty"`
	// Services of the graph by name: 1 to 25, of at most 63 letters, digits, '-' and '.'. The set of services is immutable.
	// +kubebuilder:validation:MaxProperties=25
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",reason=FieldValueRequired,message="spec.services must have at least one service"
	// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.all(name, name.size() <= 63 && name.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$'))",optionalOldSelf=true,message="service names must have 1 to 63 letters, digits, '-' or '.', and begin and end with a letter or digit: the name becomes a label and a part of the names of the service's pods"
	// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.all(a, self.exists_one(b, a.lowerAscii().replace('.', '-') == b.lowerAscii().replace('.', '-')))",optionalOldSelf=true,message="service names must be unique in lower case and with '-' for '.': they become names of pods and Services"
	// +kubebuilder:validation:XValidation:rule="self.all(name, name in oldSelf) && oldSelf.all(name, name in self)",reason=FieldValueForbidden,message="service topology is immutable and cannot be modified after creation: services were added or removed; delete and recreate the DynamoGraphDeployment to change its set of services"
	Services map[string]*ServiceSpec `json:"services"`
	// Envs of every service's main container. A service's own variable of the same name overrides them.
	// +listType=atomic
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
	// BackendFramework of the workers: vllm, sglang or trtllm. Detected from each worker's command line when unset. Immutable.
	// +optional
	BackendFramework BackendFramework `json:"backendFramework,omitempty"`
	// Restart requests one restart of the graph's services each time its id changes. Must be unset at creation.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
	// TopologyConstraint names the ClusterTopology and how the graph is packed and spread. Immutable.
	// +optional
	TopologyConstraint *SpecTopologyConstraint `json:"topologyConstraint,omitempty"`
	// PriorityClassName of every pod that does not set its own. From Dynamo 1.5.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ProviderOverride is a fragment of the provider's object, from Dynamo 1.5. Grove uses its topology constraint.
	// +optional
	ProviderOverride *FreeObject `json:"providerOverride,omitempty"`
	// Experimental settings of the graph, from Dynamo 1.5. Trellis uses kvTransferPolicy; other fields are kept as written.
	// +optional
	Experimental *FreeObject `json:"experimental,omitempty"`
}

// BackendFramework is the inference engine of the workers.
//
// +kubebuilder:validation:Enum=sglang;vllm;trtllm
type BackendFramework string

// The frameworks whose multinode start Trellis supports.
const (
	BackendFrameworkVLLM   BackendFramework = "vllm"
	BackendFrameworkSGLang BackendFramework = "sglang"
	BackendFrameworkTRTLLM BackendFramework = "trtllm"
)

// PVC is a PersistentVolumeClaim that services mount by name.
//
// +kubebuilder:validation:XValidation:rule="!has(self.create) || !self.create || (has(self.size) && has(self.storageClass) && self.storageClass.size() > 0 && has(self.volumeAccessMode))",message="When create is true, size, storageClass, and volumeAccessMode are required"
type PVC struct {
	// Name of the claim in the graph's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name *string `json:"name"`
	// Create the claim, owned by the graph and deleted with it. Otherwise the claim must exist.
	// +optional
	Create *bool `json:"create,omitempty"`
	// StorageClass of a created claim. Required with create.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClass string `json:"storageClass,omitempty"`
	// Size of a created claim in bytes, as a quantity, e.g. 100Gi. Required with create.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
	// VolumeAccessMode of a created claim, e.g. ReadWriteMany. Required with create.
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadOnlyMany;ReadWriteMany;ReadWriteOncePod
	// +optional
	VolumeAccessMode corev1.PersistentVolumeAccessMode `json:"volumeAccessMode,omitempty"`
}

// RestartStrategyType is the order in which services restart.
//
// +kubebuilder:validation:Enum=Sequential;Parallel
type RestartStrategyType string

// The restart strategies.
const (
	RestartStrategySequential RestartStrategyType = "Sequential"
	RestartStrategyParallel   RestartStrategyType = "Parallel"
)

// Restart requests one restart of the services per new id.
type Restart struct {
	// ID of the request, any text. A new value starts a new restart.
	// +kubebuilder:validation:MinLength=1
	ID string `json:"id"`
	// Strategy of the restart: sequential or parallel, and the order.
	// +optional
	Strategy *RestartStrategy `json:"strategy,omitempty"`
}

// RestartStrategy is how services restart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.order) || self.order.size() == 0 || !has(self.type) || self.type != 'Parallel'",fieldPath=".order",message="order cannot be specified when strategy is parallel"
type RestartStrategy struct {
	// Type is Sequential, one service after the other, or Parallel, all at once.
	// +kubebuilder:default=Sequential
	// +optional
	Type RestartStrategyType `json:"type,omitempty"`
	// Order of a sequential restart: every service exactly once. Alphabetical when empty.
	// +kubebuilder:validation:MaxItems=25
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b == a))",message="order must be unique: a service appears more than once"
	// +listType=atomic
	// +optional
	Order []string `json:"order,omitempty"`
}

// DynamoGraphDeployment is an inference graph: frontends, prefill and decode workers, some of them spanning several nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dgd,categories=dynamo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Services",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.status.placement.domain`,priority=1
// +kubebuilder:printcolumn:name="Placed Message",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].message`,priority=1
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.engine`,priority=1
type DynamoGraphDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired graph.
	Spec DynamoGraphDeploymentSpec `json:"spec"`
	// Status is the observed state of the graph.
	// +optional
	Status DynamoGraphDeploymentStatus `json:"status,omitempty"`
}

// DynamoGraphDeploymentList is a list of DynamoGraphDeployment.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DynamoGraphDeployment `json:"items"`
}
