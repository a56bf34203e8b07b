// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoGraphDeploymentSpec is an inference graph: its components and their topology constraints.
//
// Rules on immutable settings (the set of components, the constraints) apply to new objects only, so that older objects can still be
// scaled.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.restart)",optionalOldSelf=true,fieldPath=".restart",reason=FieldValueForbidden,message="spec.restart must be unset on create; set spec.restart.id after creation to request a restart: apply the object without it, then set it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || has(self.topologyConstraint) || !has(self.components) || self.components.all(c, !has(c.topologyConstraint))",optionalOldSelf=true,fieldPath=".topologyConstraint",reason=FieldValueRequired,message="spec.topologyConstraint with clusterTopologyName is required when any topology constraint is set (at spec or component level)"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.topologyConstraint) || has(self.topologyConstraint.packDomain) || has(self.topologyConstraint.preferredPackDomain) || has(self.topologyConstraint.spreadDomain) || has(self.topologyConstraint.preferredSpreadDomain) || (has(self.components) && self.components.exists(c, has(c.topologyConstraint)))",optionalOldSelf=true,fieldPath=".topologyConstraint.packDomain",reason=FieldValueRequired,message="packDomain is required when no component sets a topologyConstraint"
// +kubebuilder:validation:XValidation:rule="has(self.topologyConstraint) == has(oldSelf.topologyConstraint) && (!has(self.topologyConstraint) || self.topologyConstraint == oldSelf.topologyConstraint)",fieldPath=".topologyConstraint",reason=FieldValueForbidden,message="spec.topologyConstraint is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
// +kubebuilder:validation:XValidation:rule="has(self.backendFramework) == has(oldSelf.backendFramework) && (!has(self.backendFramework) || self.backendFramework == oldSelf.backendFramework)",fieldPath=".backendFramework",reason=FieldValueForbidden,message="spec.backendFramework is immutable and cannot be changed after creation"
// +kubebuilder:validation:XValidation:rule="!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || !has(self.components) || self.restart.strategy.order.all(name, self.components.exists(c, c.name == name))",fieldPath=".restart.strategy.order",message="order contains an unknown component: every entry must be the name of an entry of spec.components"
// +kubebuilder:validation:XValidation:rule="!has(self.restart) || !has(self.restart.strategy) || !has(self.restart.strategy.order) || !has(self.components) || self.restart.strategy.order.size() == 0 || self.restart.strategy.order.size() == self.components.size()",fieldPath=".restart.strategy.order",message="order must have the same number of unique components as the deployment"
type DynamoGraphDeploymentSpec struct {
	// ProviderOverride configures the root object that the workload provider creates.
	// +optional
	ProviderOverride *ProviderOverride `json:"providerOverride,omitempty"`
	// Annotations of every object created for the graph. A component's podTemplate overrides them.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of every object created for the graph. A component's podTemplate overrides them.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// PriorityClassName of every pod that does not set its own.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// Components of the graph: 1 to 25, names unique ignoring case. The set of components is immutable.
	// +kubebuilder:validation:MaxItems=25
	// +kubebuilder:validation:XValidation:rule="self.size() > 0",reason=FieldValueRequired,message="spec.components must have at least one component"
	// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",optionalOldSelf=true,message="component names must be unique case-insensitively: they become names of pods and Services"
	// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.filter(c, has(c.type) && c.type == 'epp').size() <= 1",optionalOldSelf=true,message="at most one component may have type epp"
	// +kubebuilder:validation:XValidation:rule="self.filter(c, has(c.type) && c.type == 'epp').size() <= 1 || oldSelf.filter(c, has(c.type) && c.type == 'epp').size() > 1",message="at most one component may have type epp"
	// +kubebuilder:validation:XValidation:rule="self.size() == oldSelf.size() && self.all(a, oldSelf.exists(b, a.name == b.name))",reason=FieldValueForbidden,message="component topology is immutable and cannot be modified after creation: components were added or removed; delete and recreate the DynamoGraphDeployment to change its set of components"
	// +listType=map
	// +listMapKey=name
	Components []ComponentSpec `json:"components"`
	// Env of every component's main container, before the container's own variables, which override variables of the same name.
	// +listType=atomic
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// BackendFramework of the workers: vllm, sglang or trtllm. Detected from each worker's command line when unset. Immutable.
	// +optional
	BackendFramework BackendFramework `json:"backendFramework,omitempty"`
	// Restart requests one restart of the graph's components each time its id changes. Must be unset at creation.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
	// TopologyConstraint names the ClusterTopology and how the graph is packed and spread. Immutable.
	// +optional
	TopologyConstraint *SpecTopologyConstraint `json:"topologyConstraint,omitempty"`
	// Experimental settings of the graph; subject to change.
	// +optional
	Experimental *GraphExperimental `json:"experimental,omitempty"`
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

// RestartStrategyType is the order in which components restart.
//
// +kubebuilder:validation:Enum=Sequential;Parallel
type RestartStrategyType string

// The restart strategies.
const (
	RestartStrategySequential RestartStrategyType = "Sequential"
	RestartStrategyParallel   RestartStrategyType = "Parallel"
)

// Restart requests one restart of the components per new id.
type Restart struct {
	// ID of the request, any text. A new value starts a new restart.
	// +kubebuilder:validation:MinLength=1
	ID string `json:"id"`
	// Strategy of the restart: sequential or parallel, and the order.
	// +optional
	Strategy *RestartStrategy `json:"strategy,omitempty"`
}

// RestartStrategy is how components restart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.order) || self.order.size() == 0 || !has(self.type) || self.type != 'Parallel'",fieldPath=".order",message="order cannot be specified when strategy is parallel"
type RestartStrategy struct {
	// Type is Sequential, one component after the other, or Parallel, all at once.
	// +kubebuilder:default=Sequential
	// +optional
	Type RestartStrategyType `json:"type,omitempty"`
	// Order of a sequential restart: every component exactly once. Alphabetical when empty.
	// +kubebuilder:validation:MaxItems=25
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b == a))",message="order must be unique: a component appears more than once"
	// +listType=atomic
	// +optional
	Order []string `json:"order,omitempty"`
}

// DynamoGraphDeployment is an inference graph: frontends, prefill and decode workers, some of them spanning several nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=dgd,categories=dynamo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.summary`
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

// Component returns the component with the name, or nil.
func (in *DynamoGraphDeployment) Component(name string) *ComponentSpec {
	for i := range in.Spec.Components {
		if c := &in.Spec.Components[i]; c.Name == name {
			return c
		}
	}
	return nil
}

// PodsPerReplica returns the number of pods of one replica of a component, and whether the component is multinode. A nil component counts
// as one pod.
func (in *ComponentSpec) PodsPerReplica() (pods int32, multinode bool) {
	switch {
	case in == nil || in.Multinode == nil:
		return 1, false
	case in.Multinode.NodeCount == 0: // the default of the API
		return 2, true
	case in.Multinode.NodeCount < 2:
		return 1, false
	}
	return in.Multinode.NodeCount, true
}

// DynamoGraphDeploymentList is a list of DynamoGraphDeployment.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DynamoGraphDeployment `json:"items"`
}
