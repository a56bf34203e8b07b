// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ScalingGroupSpec is one service of a graph as the operator resolved it: how many replicas, the pods of each, and the frozen constraint.
// Only the operator writes it.
//
// +kubebuilder:validation:XValidation:rule="has(self.topology) == has(oldSelf.topology)",fieldPath=".topology",reason=FieldValueForbidden,message="topology is immutable and cannot be added, removed, or changed: it is what the graph was created with"
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || self.pods == [self.replicas * self.roles.map(r, r.count).sum(), 2147483647].min()",fieldPath=".pods",reason=FieldValueForbidden,message="pods is replicas times the pods of a replica: to scale, change the DynamoGraphDeployment"
type ScalingGroupSpec struct {
	// graph is the name of the owning DynamoGraphDeployment. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="graph is immutable"
	// +required
	Graph string `json:"graph"`
	// service is the service's name in the graph, as the user wrote it. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="service is immutable"
	// +required
	Service string `json:"service"`
	// engine is what gets the gangs onto nodes: Gates, PodGroup, KAI or Grove. It stays as it is while the graph has pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Provider string `json:"engine"`
	// workload makes the pods of each replica in Trellis' stead: LeaderWorkerSet, for multinode services of a graph that asks for it. Absent:
	// Trellis makes them. It stays as it is while the graph has pods.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Workload string `json:"workload,omitempty"`
	// replicas wanted, 0 to 65536. Each is one gang.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65536
	// +required
	Replicas int32 `json:"replicas"`
	// minAvailable is how many replicas belong to the base gang of the graph, 1 or more. Absent: 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// pods wanted: replicas times the pods of a replica. It is what the scale subresource reports, which disruption budgets count by; to
	// scale, change the DynamoGraphDeployment. Absent until an operator that knows the field has written the group.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods *int32 `json:"pods,omitempty"`
	// multinode services pack each replica on its own; others pack all replicas together. Immutable.
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="multinode is immutable"
	// +optional
	Multinode bool `json:"multinode,omitempty"`
	// topology is the constraint with the levels as they were when the graph was first reconciled, or when they changed while no pod of it was
	// placed. Immutable but for levels and nodeSelector; absent without a constraint.
	// +optional
	Topology *ResolvedTopology `json:"topology,omitempty"`
	// revision identifies the content of Roles; pods carry it as a label.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// roles of a replica's pods, in pod index order: a multinode replica is one leader and then its workers.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +required
	Roles []Role `json:"roles"`
	// input identifies what Roles were made from. While it is the same, Roles and Revision stay as they are, also under another version of
	// the operator that would make other ones. Absent in groups written before it was there: their roles stay, too.
	// +optional
	Input *TemplateInput `json:"input,omitempty"`
	// rollout describes how replicas of an older revision are replaced. Absent: one after the other, in place.
	// +optional
	Rollout *RolloutStrategy `json:"rollout,omitempty"`
	// step of the generation of workers that the graph is changing to: how far the group may go while the other components follow. Absent
	// while the workers are of one generation, and in groups that are updated by themselves.
	// +optional
	Step *RolloutStep `json:"step,omitempty"`
	// restart is the last restart that was asked for. Replicas made for another one are outdated.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
	// moves is how replicas leave nodes that are drained or removed. Absent: a successor is created first. InPlace: none is. Never: they
	// do not leave by themselves.
	// +optional
	Moves MovePolicy `json:"moves,omitempty"`
}

// MovePolicy is how replicas leave nodes that are drained or removed.
//
// +kubebuilder:validation:Enum=InPlace;Never
type MovePolicy string

const (
	// MovesInPlace means that a replica is deleted before its successor is created.
	MovesInPlace MovePolicy = "InPlace"
	// MovesNever means that replicas stay until their pods are evicted.
	MovesNever MovePolicy = "Never"
)

// TemplateInput is a hash of everything a user or an administrator wrote that decides what the pods of a service look like. Replicas,
// scaling adapter and topology are no part of it.
type TemplateInput struct {
	// form numbers what is hashed and how. Hashes of different forms cannot be compared.
	// +required
	Form int32 `json:"form"`
	// hash in hexadecimal digits.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Hash string `json:"hash"`
}

// RolloutStrategy bounds a rolling update.
type RolloutStrategy struct {
	// recreate stops all replicas of an older revision before any is recreated.
	// +optional
	Recreate bool `json:"recreate,omitempty"`
	// maxUnavailable is how many replicas may be missing meanwhile, as a number or a percentage of replicas, rounded down.
	// +required
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// maxSurge is how many replicas there may be beyond the wanted ones, as a number or a percentage of replicas, rounded up.
	// +required
	MaxSurge intstr.IntOrString `json:"maxSurge"`
}

// RolloutStep bounds the update of one component by what all workers of the graph have come to. It takes the place of Rollout.
type RolloutStep struct {
	// keep so many available replicas of older revisions. The largest number keeps all of them.
	// +kubebuilder:validation:Minimum=0
	// +required
	Keep int32 `json:"keep"`
	// generations that these replicas are of. Absent: any.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	// +listType=map
	// +listMapKey=name
	Generations []GenerationStep `json:"generations,omitempty"`
	// make at most so many replicas of the revision.
	// +kubebuilder:validation:Minimum=0
	// +required
	Make int32 `json:"make"`
	// paused means that no replica is replaced, whether it serves or not.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// maxUnavailable is how many replicas may be missing meanwhile.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxUnavailable int32 `json:"maxUnavailable"`
	// maxSurge is how many replicas there may be beyond the wanted ones.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxSurge int32 `json:"maxSurge"`
}

// GenerationStep is what one generation of workers keeps.
type GenerationStep struct {
	// name of the generation; empty for workers without one.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// keep so many available replicas.
	// +kubebuilder:validation:Minimum=0
	// +required
	Keep int32 `json:"keep"`
}

// Restart is a request to recreate every replica.
type Restart struct {
	// id of the request; pods carry it as the annotation nvidia.com/restartAt.
	// +required
	ID string `json:"id"`
	// stop means that no replica is made until every group of the graph has stopped.
	// +optional
	Stop bool `json:"stop,omitempty"`
}

// ResolvedTopology is a topology constraint as frozen at the first reconcile, or when the ClusterTopology changed while no pod was placed.
// Domains name entries of Levels.
//
// +kubebuilder:validation:XValidation:rule="self.profile == oldSelf.profile && has(self.graphPackDomain) == has(oldSelf.graphPackDomain) && (!has(self.graphPackDomain) || self.graphPackDomain == oldSelf.graphPackDomain) && has(self.graphPreferredPackDomain) == has(oldSelf.graphPreferredPackDomain) && (!has(self.graphPreferredPackDomain) || self.graphPreferredPackDomain == oldSelf.graphPreferredPackDomain) && has(self.packDomain) == has(oldSelf.packDomain) && (!has(self.packDomain) || self.packDomain == oldSelf.packDomain) && has(self.preferredPackDomain) == has(oldSelf.preferredPackDomain) && (!has(self.preferredPackDomain) || self.preferredPackDomain == oldSelf.preferredPackDomain) && has(self.spreadDomain) == has(oldSelf.spreadDomain) && (!has(self.spreadDomain) || self.spreadDomain == oldSelf.spreadDomain) && has(self.preferredSpreadDomain) == has(oldSelf.preferredSpreadDomain) && (!has(self.preferredSpreadDomain) || self.preferredSpreadDomain == oldSelf.preferredSpreadDomain) && has(self.automatic) == has(oldSelf.automatic) && (!has(self.automatic) || self.automatic == oldSelf.automatic) && has(self.kvTransferDomain) == has(oldSelf.kvTransferDomain) && (!has(self.kvTransferDomain) || self.kvTransferDomain == oldSelf.kvTransferDomain) && has(self.kvTransferRequired) == has(oldSelf.kvTransferRequired) && (!has(self.kvTransferRequired) || self.kvTransferRequired == oldSelf.kvTransferRequired)",reason=FieldValueForbidden,message="topology is immutable and cannot be added, removed, or changed, except for its levels and nodeSelector: it is what the graph was created with"
type ResolvedTopology struct {
	// profile is the name of the ClusterTopology the levels were read from.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Profile string `json:"profile"`
	// levels from the broadest to the narrowest.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	Levels []ResolvedLevel `json:"levels"`
	// nodeSelector of the ClusterTopology.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// graphPackDomain means that all pods of the graph sit in one domain of this level.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	GraphPackDomain string `json:"graphPackDomain,omitempty"`
	// graphPreferredPackDomain is tried first for the graph.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	GraphPreferredPackDomain string `json:"graphPreferredPackDomain,omitempty"`
	// packDomain means that each unit of this service sits in one domain of this level.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// preferredPackDomain is tried first for each unit.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
	// spreadDomain means that the replicas of this service are spread over the domains of this level.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SpreadDomain string `json:"spreadDomain,omitempty"`
	// preferredSpreadDomain means that they are spread, as far as there is capacity.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredSpreadDomain string `json:"preferredSpreadDomain,omitempty"`
	// kvTransferDomain is the level of whose domains prefill and decode replicas share the same ones, by the kvTransferPolicy of the
	// deployment. Set on components of these two roles, of deployments that were created by an operator that knows the field.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	KVTransferDomain string `json:"kvTransferDomain,omitempty"`
	// kvTransferRequired means that the policy states the enforcement "required": a domain is opened only by a replica of each role.
	// +optional
	KVTransferRequired bool `json:"kvTransferRequired,omitempty"`
	// automatic means that the graph states no constraint, and this is what the cluster's default topology gives it.
	// +optional
	Automatic bool `json:"automatic,omitempty"`
}

// ResolvedLevel is one level: its domain name and node label key.
type ResolvedLevel struct {
	// domain is the level's name.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Domain string `json:"domain"`
	// key is the node label key.
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key"`
}

// Role is a run of equal pods within each replica.
type Role struct {
	// name is "main", "leader" or "worker".
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// count of pods of this role in one replica, 1 to 4096.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	// +required
	Count int32 `json:"count"`
	// Template the pods are made from. Free of a schema: the operator writes it, and the API server checks the pods.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
}

// ScalingGroup owns all replicas of one service of a graph. Its scale subresource counts pods, for disruption budgets only: a write to it
// is refused.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sg,categories=dynamo
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.pods,statuspath=.status.pods,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Graph",type=string,JSONPath=`.spec.graph`,description="The DynamoGraphDeployment"
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service`,description="The service of the graph"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas wanted"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Replicas with every pod ready"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`,description="Replicas at the current revision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.engine`,priority=1,description="What gets the gangs onto nodes"
// +kubebuilder:printcolumn:name="Pack Domain",type=string,JSONPath=`.spec.topology.packDomain`,priority=1,description="The level each unit is packed in"
// +kubebuilder:printcolumn:name="Graph Domain",type=string,JSONPath=`.spec.topology.graphPackDomain`,priority=1,description="The level the whole graph is packed in"
type ScalingGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is one service, resolved.
	// +required
	Spec ScalingGroupSpec `json:"spec"`
	// status counts its replicas.
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

// Condition types and reasons of a ScalingGroup.
const (
	// ConditionPodsInSync is False when the API server refused to create or delete a pod of the group, e.g. for a quota.
	ConditionPodsInSync = "PodsInSync"
	// ConditionRolledOut is False while replicas of an older revision, or from before the last restart, are being replaced.
	ConditionRolledOut = "RolledOut"
	// ConditionPodsHealthy is False while replicas fail, or pods do not start or end, and absent otherwise.
	ConditionPodsHealthy = "PodsHealthy"

	// ConditionMoved is False while replicas are to leave their nodes, and absent otherwise.
	ConditionMoved = "Moved"

	// ConditionPlacementsComplete is False while the status has no space for the places of all replicas in full, and absent otherwise.
	ConditionPlacementsComplete = "PlacementsComplete"

	ReasonInSync        = "InSync"
	ReasonChangeRefused = "ChangeRefused"

	// ReasonReplicaFailed: pods ended, and their replicas are recreated after a delay.
	ReasonReplicaFailed = "ReplicaFailed"
	// ReasonPodsNotStarting: pods are on nodes, and their kubelets cannot get their containers to run.
	ReasonPodsNotStarting = "PodsNotStarting"
	// ReasonPodsNotReady: the containers of pods run, and their probes fail or their nodes are not ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonPodsNotEnding: pods were deleted, and do not end although their grace period is over.
	ReasonPodsNotEnding = "PodsNotEnding"

	// ReasonMoving: successors of replicas that are to leave their nodes are created, or start.
	ReasonMoving = "Moving"
	// ReasonMoveWaits: such a replica is overdue, and too few others serve for it to go.
	ReasonMoveWaits = "MoveWaits"

	// ReasonPlacementsShortened: paths end at a broader level, or replicas are left out.
	ReasonPlacementsShortened = "PlacementsShortened"

	ReasonUpToDate                = "UpToDate"
	ReasonRollingOut              = "RollingOut"
	ReasonRolloutWaitsForCapacity = "RolloutWaitsForCapacity"
)
