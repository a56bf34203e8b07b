// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GraphPlacementSpec lists the places of the replicas of one DynamoGraphDeployment. Only the operator writes it, before it releases or
// creates pods.
type GraphPlacementSpec struct {
	// deploymentUID is the UID of the DynamoGraphDeployment.
	// +kubebuilder:validation:MaxLength=63
	// +required
	DeploymentUID string `json:"deploymentUID"`
	// domain of all pods of the deployment, as a path of label values from the broadest level down, e.g. "zone-0/block-1". Absent if the
	// deployment requires no common domain, or before the domain is chosen.
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
	// gangs are the gangs that are unbound or evicted. When all pods of a gang are bound, its replicas move to bound.
	// +optional
	// +listType=atomic
	Gangs []PlacedGang `json:"gangs,omitempty"`
	// bound are the replicas of bound gangs.
	// +optional
	// +listType=atomic
	Bound []ComponentPlaces `json:"bound,omitempty"`
	// former are the last places of replicas that have no place now. Pods of these attempts are ignored and deleted.
	// +optional
	// +listType=atomic
	Former []ComponentPlaces `json:"former,omitempty"`
	// refused are the hosts and domains where a scheduler did not bind pods of the deployment. The deployment avoids them for some time.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	// +listType=atomic
	Refused []RefusedPlace `json:"refused,omitempty"`
	// freed are hosts that replicas of other deployments leave for the deployment. Absent if no replicas move for it.
	// +optional
	Freed *FreedHosts `json:"freed,omitempty"`
	// domains of the places. Places refer to them by index, from 0. A broader domain comes before the domains in it.
	// +optional
	// +listType=atomic
	Domains []PlacedDomain `json:"domains,omitempty"`
	// hosts are the names of the planned nodes. Places refer to them by index, from 0.
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	// +listType=atomic
	Hosts []string `json:"hosts,omitempty"`
}

// GangState is the state of an unbound or evicted gang.
//
// +kubebuilder:validation:Enum=Assigned;Evicting
type GangState string

const (
	// GangAssigned means that the gang has places, and that some of its pods are missing, gated or unbound.
	GangAssigned GangState = "Assigned"
	// GangEvicting means that the operator deletes the pods of the gang to place its replicas again.
	GangEvicting GangState = "Evicting"
)

// PlacedGang is an unbound or evicted gang.
type PlacedGang struct {
	// name of the gang: the annotation trellis.dev/gang of its pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	// +required
	Name string `json:"name"`
	// state of the gang.
	// +required
	State GangState `json:"state"`
	// since is when the gang entered the state.
	// +required
	Since metav1.Time `json:"since"`
	// base marks the base gang of the deployment: minAvailable replicas of every component, which start together.
	// +optional
	Base bool `json:"base,omitempty"`
	// message is the reason for the state. Absent for a first assignment.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// components are the components with replicas in the gang.
	// +required
	// +listType=atomic
	Components []ComponentPlaces `json:"components"`
}

// ComponentPlaces are the places of replicas of one component.
type ComponentPlaces struct {
	// component is the component's name in the deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Component string `json:"component"`
	// places of the replicas.
	// +required
	// +listType=atomic
	Places []ReplicaPlaces `json:"places"`
}

// ReplicaPlaces are the places of replicas in one domain.
type ReplicaPlaces struct {
	// replicas lists ordinals and ranges of ordinals, e.g. "0-7,12".
	// +kubebuilder:validation:MinLength=1
	// +required
	Replicas string `json:"replicas"`
	// attempt counts the placements of these replicas, from 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Attempt int32 `json:"attempt"`
	// domain is the domain to which the pods are pinned, as an index of spec.domains. Absent: the entire cluster.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Domain *int32 `json:"domain,omitempty"`
	// neverBound means that no attempt so far had all pods of the replica bound.
	// +optional
	NeverBound bool `json:"neverBound,omitempty"`
	// hosts are the planned nodes of the pods, as indexes of spec.hosts, by ordinal and pod index; -1 for a pod that is bound or has no
	// planned node. Absent if no pod has a planned node.
	// +optional
	// +listType=atomic
	Hosts []int32 `json:"hosts,omitempty"`
}

// RefusedPlace is a host or a domain where a scheduler did not bind pods.
type RefusedPlace struct {
	// host is the name of a node. Absent for a domain.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Host string `json:"host,omitempty"`
	// domain as a path of label values from the broadest level down; for a host, its narrowest domain.
	// +kubebuilder:validation:MaxLength=1023
	// +optional
	Domain string `json:"domain,omitempty"`
	// nodeLabels are the labels that select the nodes of a domain. Absent for a host.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// shape identifies the requests and scheduling rules of the pods.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Shape string `json:"shape"`
	// times counts the consecutive refusals.
	// +kubebuilder:validation:Minimum=1
	// +required
	Times int32 `json:"times"`
	// last is the time of the last refusal.
	// +required
	Last metav1.Time `json:"last"`
	// until is the time at which the exclusion of the place ends. After that, for the same duration again, the place is the last choice.
	// +required
	Until metav1.Time `json:"until"`
	// message is the scheduler's message.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`
}

// FreedHosts are hosts that are reserved for a waiting deployment while replicas of other deployments move away from them.
type FreedHosts struct {
	// hosts are the names of the nodes.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MaxLength=253
	// +required
	// +listType=atomic
	Hosts []string `json:"hosts"`
	// domain of the hosts, as a path of label values from the broadest level down. Absent for the entire cluster.
	// +kubebuilder:validation:MaxLength=1023
	// +optional
	Domain string `json:"domain,omitempty"`
	// until is when the reservation ends.
	// +required
	Until metav1.Time `json:"until"`
	// replicas counts the replicas that are still to move.
	// +kubebuilder:validation:Minimum=1
	// +required
	Replicas int32 `json:"replicas"`
	// gpus counts the GPUs of these replicas.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUs int64 `json:"gpus,omitempty"`
	// maxGPUs is the maximum number of GPUs that restart for the deployment, if the request for the moves has such a limit.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxGPUs int64 `json:"maxGPUs,omitempty"`
	// deployments are the DynamoGraphDeployments of these replicas, as namespace/name. Their replicas are not placed on the hosts.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MaxLength=317
	// +required
	// +listType=atomic
	Deployments []string `json:"deployments"`
}

// PlacedDomain is a domain of a topology level.
type PlacedDomain struct {
	// name is the value of the node label of the level.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// in is the index of the parent domain in spec.domains. Absent for a domain of the broadest level.
	// +kubebuilder:validation:Minimum=0
	// +optional
	In *int32 `json:"in,omitempty"`
}

// GraphPlacement lists the places of the replicas of the DynamoGraphDeployment with the same name. The operator writes it before it
// releases or creates pods. If it is deleted, the operator recreates it from the pods, without restarts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gp,categories=dynamo
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.domain`,description="The domain that the entire deployment is in"
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=`.spec.boundReplicas`,description="Replicas of bound gangs"
// +kubebuilder:printcolumn:name="Unbound Gangs",type=integer,JSONPath=`.spec.unboundGangs`,description="Gangs that are assigned and unbound, or evicted"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GraphPlacement struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the places.
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
