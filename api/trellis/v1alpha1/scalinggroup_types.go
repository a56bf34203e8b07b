// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScalingGroupSpec is one service of a graph as the operator resolved it: how many replicas, the pods of each, and the frozen constraint.
// Only the operator writes it.
type ScalingGroupSpec struct {
	// Graph is the name of the owning DynamoGraphDeployment.
	Graph string `json:"graph"`
	// Service is the service's name in the graph, as the user wrote it.
	Service string `json:"service"`
	// Engine is what gets the gangs onto nodes.
	Engine string `json:"engine"`
	// Replicas wanted. Each is one gang.
	Replicas int32 `json:"replicas"`
	// Multinode services pack each replica on its own; others pack all replicas together.
	// +optional
	Multinode bool `json:"multinode,omitempty"`
	// Topology is the constraint with the levels as they were when the graph was first reconciled. Immutable; absent without a constraint.
	// +optional
	Topology *ResolvedTopology `json:"topology,omitempty"`
	// Revision identifies the content of Roles; pods carry it as a label.
	Revision string `json:"revision"`
	// Roles of a replica's pods, in pod index order: a multinode replica is one leader and then its workers.
	Roles []Role `json:"roles"`
}

// ResolvedTopology is a topology constraint as frozen at the first reconcile. Domains name entries of Levels.
type ResolvedTopology struct {
	// Profile is the name of the ClusterTopology the levels were read from.
	Profile string `json:"profile"`
	// Levels, from the broadest to the narrowest.
	Levels []ResolvedLevel `json:"levels"`
	// NodeSelector of the ClusterTopology.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// GraphPackDomain: all pods of the graph sit in one domain of this level.
	// +optional
	GraphPackDomain string `json:"graphPackDomain,omitempty"`
	// GraphPreferredPackDomain is tried first for the graph.
	// +optional
	GraphPreferredPackDomain string `json:"graphPreferredPackDomain,omitempty"`
	// PackDomain: each unit of this service sits in one domain of this level.
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is tried first for each unit.
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
}

// ResolvedLevel is one level: its domain name and node label key.
type ResolvedLevel struct {
	Domain string `json:"domain"`
	Key    string `json:"key"`
}

// Role is a run of equal pods within each replica.
type Role struct {
	// Name is "main", "leader" or "worker".
	Name string `json:"name"`
	// Count of pods of this role in one replica.
	Count int32 `json:"count"`
	// Template the pods are made from.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
}

// ScalingGroupStatus counts replicas, not pods.
type ScalingGroupStatus struct {
	// ObservedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas that exist, complete or not.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// UpdatedReplicas run the current revision, whole.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// ScheduledReplicas have every pod bound to a node.
	// +optional
	ScheduledReplicas int32 `json:"scheduledReplicas,omitempty"`
	// ReadyReplicas have every pod Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas are Ready replicas that are not terminating.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// Placements is the last domain of each replica. A replica that comes back tries it first; it never has to.
	// +optional
	// +listType=map
	// +listMapKey=replica
	Placements []ReplicaPlacement `json:"placements,omitempty"`
	// Conditions of the group.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaPlacement is where one replica sits, or last sat.
type ReplicaPlacement struct {
	// Replica is the ordinal.
	Replica int32 `json:"replica"`
	// Domain is the path of label values from the broadest level down, e.g. "zone-0/block-1/rack-2".
	Domain string `json:"domain"`
}

// ScalingGroup owns all replicas of one service of a graph.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sg,categories=dynamo
// +kubebuilder:subresource:status
type ScalingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScalingGroupSpec `json:"spec"`
	// +optional
	Status ScalingGroupStatus `json:"status,omitempty"`
}

// ScalingGroupList is a list of ScalingGroup.
//
// +kubebuilder:object:root=true
type ScalingGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalingGroup `json:"items"`
}
