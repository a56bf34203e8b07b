// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterTopologySpec describes the network hierarchy of one kind of hardware in the cluster.
type ClusterTopologySpec struct {
	// Levels of the hierarchy, 1 to 16, from the broadest to the narrowest. Each level maps a domain name, which deployments use, to a node
	// label key, whose values are the domains. Levels may change: running pods stay, and deployments report the change.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, y.domain == x.domain))",message="domain must be unique across all levels"
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, y.key == x.key))",message="key must be unique across all levels"
	// +listType=atomic
	Levels []TopologyLevel `json:"levels"`

	// NodeSelector limits this topology to the nodes with all of these labels (a node pool); at most 16. Empty: every node.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// SchedulerTopologyReferences names topology objects of other schedulers that describe the same hierarchy; one per scheduler.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=schedulerName
	// +optional
	SchedulerTopologyReferences []SchedulerTopologyReference `json:"schedulerTopologyReferences,omitempty"`
}

// TopologyLevel is one level of the hierarchy.
type TopologyLevel struct {
	// Domain is the name of the level, which deployments use in packDomain, e.g. "rack". Any DNS label is allowed.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Domain string `json:"domain"`
	// Key is the node label key whose values are the domains of this level, e.g. "topology.kubernetes.io/zone": an optional DNS prefix of
	// at most 253 characters and a name of at most 63.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.indexOf('/') <= 253",message="the prefix of a label key must have at most 253 characters"
	Key string `json:"key"`
}

// SchedulerTopologyReference names the topology object of one scheduler.
type SchedulerTopologyReference struct {
	// SchedulerName is the name of the scheduler, e.g. "kai-scheduler".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	SchedulerName string `json:"schedulerName"`
	// TopologyReference is the name of that scheduler's topology object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TopologyReference string `json:"topologyReference"`
}

// Condition types and reasons of a ClusterTopology.
const (
	// ConditionLevelsLabeled is True when every node of the topology has the label of every level.
	ConditionLevelsLabeled = "LevelsLabeled"
	// ConditionHierarchyConsistent is True when each hostname value belongs to one node, each domain has one parent, and each level is
	// broader than the next.
	ConditionHierarchyConsistent = "HierarchyConsistent"
	// ConditionInUse is True while a deployment names this topology.
	ConditionInUse = "InUse"
	// ConditionDefault is present on topologies annotated as the cluster's default, and True on the oldest of them, which the operator
	// uses.
	ConditionDefault = "Default"
	// ConditionSchedulersInSync is True while the topology objects of other schedulers that deployments use have the same levels as this
	// topology. It is absent while no deployment needs such an object.
	ConditionSchedulersInSync = "SchedulersInSync"
	// ConditionBindingInSync is present while a ClusterTopologyBinding of the same name exists that Trellis did not write, and True when
	// the levels of both objects are equal. If the levels differ, the levels of the ClusterTopology are used.
	ConditionBindingInSync = "BindingInSync"

	ReasonTopologiesAgree    = "TopologiesAgree"
	ReasonTopologiesDiffer   = "TopologiesDiffer"
	ReasonBindingInvalid     = "BindingInvalid"
	ReasonAllNodesLabeled    = "AllNodesLabeled"
	ReasonLabelsMissing      = "LabelsMissing"
	ReasonNoNodes            = "NoNodes"
	ReasonHierarchyValid     = "HierarchyValid"
	ReasonDuplicateHostnames = "DuplicateHostnames"
	ReasonLevelOmitted       = "LevelOmitted"
	ReasonLevelsReversed     = "LevelsReversed"
	ReasonReferenced         = "Referenced"
	ReasonUnreferenced       = "Unreferenced"
	ReasonDefault            = "IsDefault"
	ReasonSeveralDefaults    = "SeveralDefaults"
)

// ClusterTopologyStatus describes the hierarchy as found on the cluster's nodes.
type ClusterTopologyStatus struct {
	// ObservedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Summary names the levels from the broadest to the narrowest, as "zone > block > rack > host".
	// +optional
	Summary string `json:"summary,omitempty"`
	// Nodes counts the nodes of the topology.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// UsedBy counts the deployments that name this topology.
	// +optional
	UsedBy int32 `json:"usedBy,omitempty"`
	// Levels as found on the nodes, in the order of the spec.
	// +listType=atomic
	// +optional
	Levels []TopologyLevelStatus `json:"levels,omitempty"`
	// Conditions of the topology.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TopologyLevelStatus describes one level as found on the cluster's nodes.
type TopologyLevelStatus struct {
	// Domain is the name of the level.
	Domain string `json:"domain"`
	// Domains counts the domains of the level. Equal values below different parents are different domains.
	Domains int32 `json:"domains"`
	// Nodes counts the nodes with the labels of this level and of all broader levels.
	Nodes int32 `json:"nodes"`
	// NodesMissing counts the nodes of the topology that lack the label.
	NodesMissing int32 `json:"nodesMissing"`
}

// ClusterTopology maps the levels of a cluster's network to node labels. Cluster admins write it; deployments name it in
// topologyConstraint.clusterTopologyName (topologyProfile in v1alpha1).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ctopo,categories=dynamo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Levels",type=string,JSONPath=`.status.summary`,description="Levels from the broadest to the narrowest"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes this topology covers"
// +kubebuilder:printcolumn:name="Labeled",type=string,JSONPath=`.status.conditions[?(@.type=="LevelsLabeled")].status`,description="Every node carries the label of every level"
// +kubebuilder:printcolumn:name="Consistent",type=string,JSONPath=`.status.conditions[?(@.type=="HierarchyConsistent")].status`,description="Each domain is one place, and each level is broader than the next"
// +kubebuilder:printcolumn:name="Used by",type=integer,JSONPath=`.status.usedBy`,description="Deployments that name this topology"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="LevelsLabeled")].message`,priority=1,description="What the labels lack"
type ClusterTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the hierarchy.
	Spec ClusterTopologySpec `json:"spec"`
	// Status is the hierarchy as found on the cluster's nodes.
	// +optional
	Status ClusterTopologyStatus `json:"status,omitempty"`
}

// ClusterTopologyList is a list of ClusterTopology.
//
// +kubebuilder:object:root=true
type ClusterTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterTopology `json:"items"`
}
