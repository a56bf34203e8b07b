// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GraphPlacementSpec is where the replicas of one DynamoGraphDeployment are, or are to be. Only the operator writes it, before it releases
// or creates pods.
type GraphPlacementSpec struct {
	// deploymentUID is the UID of the DynamoGraphDeployment that it is about.
	// +kubebuilder:validation:MaxLength=63
	// +required
	DeploymentUID string `json:"deploymentUID"`
	// domain that all pods of the deployment have to be in, as a path of label values from the broadest level down, e.g.
	// "zone-0/block-1". Absent without such a constraint, and while it is not decided.
	// +kubebuilder:validation:MaxLength=1023
	// +optional
	Domain string `json:"domain,omitempty"`
	// boundReplicas counts the replicas in bound.
	// +kubebuilder:validation:Minimum=0
	// +optional
	BoundReplicas int32 `json:"boundReplicas,omitempty"`
	// unboundGangs counts the gangs in gangs.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UnboundGangs int32 `json:"unboundGangs,omitempty"`
	// gangs that are not bound yet, or are being evicted. Once all pods of a gang have had a node, its replicas are listed in bound.
	// +optional
	// +listType=atomic
	Gangs []PlacedGang `json:"gangs,omitempty"`
	// bound are the replicas of gangs of which all pods have had a node.
	// +optional
	// +listType=atomic
	Bound []ComponentPlaces `json:"bound,omitempty"`
	// former are the last places of replicas that have none now.
	// +optional
	// +listType=atomic
	Former []ComponentPlaces `json:"former,omitempty"`
	// domains are those that places refer to by their index, counted from 0. A broader domain comes before those in it.
	// +optional
	// +listType=atomic
	Domains []PlacedDomain `json:"domains,omitempty"`
	// hosts are the names of the nodes that places refer to by their index, counted from 0.
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	// +listType=atomic
	Hosts []string `json:"hosts,omitempty"`
}

// GangState is what is done with a gang.
//
// +kubebuilder:validation:Enum=Assigned;Evicting
type GangState string

const (
	// GangAssigned means that its places are decided, and not all of its pods have had a node. Pods may be missing, gated or unbound.
	GangAssigned GangState = "Assigned"
	// GangEvicting means that all of its pods are deleted, and its replicas are placed again.
	GangEvicting GangState = "Evicting"
)

// PlacedGang is a gang that is not bound yet, or is being evicted.
type PlacedGang struct {
	// name of the gang, as its pods carry it in the annotation trellis.dev/gang.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	// +required
	Name string `json:"name"`
	// state of the gang.
	// +required
	State GangState `json:"state"`
	// since is when the state began.
	// +required
	Since metav1.Time `json:"since"`
	// base means that the deployment begins with the gang: it has one replica of every component, or as many as that does not run without.
	// +optional
	Base bool `json:"base,omitempty"`
	// message says why the gang is in its state. Absent when it is assigned for the first time.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// components of which it has replicas, with their places.
	// +required
	// +listType=atomic
	Components []ComponentPlaces `json:"components"`
}

// ComponentPlaces are the places of replicas of one component.
type ComponentPlaces struct {
	// component is its name in the deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Component string `json:"component"`
	// places of its replicas.
	// +required
	// +listType=atomic
	Places []ReplicaPlaces `json:"places"`
}

// ReplicaPlaces are replicas in one domain.
type ReplicaPlaces struct {
	// replicas as ordinals and ranges of them, e.g. "0-7,12".
	// +kubebuilder:validation:MinLength=1
	// +required
	Replicas string `json:"replicas"`
	// attempt is how often these replicas have been placed, 1 or more: it grows each time that a replica is placed again.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int32 `json:"attempt"`
	// domain that their pods are pinned to, as an index of spec.domains. Absent: the entire cluster.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Domain *int32 `json:"domain,omitempty"`
	// hosts of their pods, as indexes of spec.hosts, in the order of ordinals and then of pods; -1 for a pod that has a node or none planned.
	// Absent when all of them do.
	// +optional
	// +listType=atomic
	Hosts []int32 `json:"hosts,omitempty"`
}

// PlacedDomain is one domain.
type PlacedDomain struct {
	// name is the value of the node label of its level.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// in is the index of the broader domain that it is in. Absent for a domain of the broadest level.
	// +kubebuilder:validation:Minimum=0
	// +optional
	In *int32 `json:"in,omitempty"`
}

// GraphPlacement is where the replicas of one DynamoGraphDeployment of the same name are, or are to be. The operator writes it before it
// releases or creates pods. When it is deleted, it is written again from the pods, and no pod restarts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gp,categories=dynamo
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.domain`,description="The domain that the entire deployment is in"
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=`.spec.boundReplicas`,description="Replicas of which all pods have had a node"
// +kubebuilder:printcolumn:name="Unbound Gangs",type=integer,JSONPath=`.spec.unboundGangs`,description="Gangs that are assigned and not bound, or being evicted"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GraphPlacement struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is where the replicas are, or are to be.
	// +required
	Spec GraphPlacementSpec `json:"spec"`
}

// GraphPlacementList is a list of GraphPlacement.
//
// +kubebuilder:object:root=true
type GraphPlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GraphPlacement `json:"items"`
}
