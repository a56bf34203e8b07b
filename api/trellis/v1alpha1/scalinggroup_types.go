// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ScalingGroupSpec is one service of a graph as resolved by the operator: the number of replicas, the pods of each replica, and the frozen
// topology constraint. Only the operator writes it.
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
	Component string `json:"service"`
	// engine is the provider that schedules the gangs: Gates, PodGroup, KAI or Grove. It does not change while the graph has pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Provider string `json:"engine"`
	// workload is the kind of object that creates the pods of each replica instead of Trellis: LeaderWorkerSet, for multinode services of a
	// graph that requests it. Absent: Trellis creates the pods. It does not change while the graph has pods.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Workload string `json:"workload,omitempty"`
	// replicas is the desired number of replicas, 0 to 65536. Each replica is a gang.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65536
	// +required
	Replicas int32 `json:"replicas"`
	// minAvailable is the number of replicas in the base gang of the graph, 1 or more. Absent: 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// pods is the desired number of pods: replicas times the pods of a replica. The scale subresource reports it for disruption budgets; to
	// scale, change the DynamoGraphDeployment. Absent if an older operator wrote the group.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods *int32 `json:"pods,omitempty"`
	// multinode means that each replica is packed on its own; otherwise all replicas are packed together. Immutable.
	// +default=false
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="multinode is immutable"
	// +optional
	Multinode bool `json:"multinode,omitempty"`
	// topology is the resolved topology constraint, with the levels as of the graph's first reconcile, or as of a later change while none
	// of its pods was placed. Immutable except levels and nodeSelector; absent without a constraint.
	// +optional
	Topology *ResolvedTopology `json:"topology,omitempty"`
	// revision identifies the content of roles; pods carry it as a label.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// roles of a replica's pods, in pod index order: a multinode replica has one leader, then its workers.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +required
	Roles []Role `json:"roles"`
	// input identifies the source of roles. While it is unchanged, roles and revision stay the same, even if another version of the
	// operator would render different roles. Absent in groups written before the field existed: their roles stay, too.
	// +optional
	Input *TemplateInput `json:"input,omitempty"`
	// rollout describes how replicas of an older revision are replaced. Absent: one at a time, in place.
	// +optional
	Rollout *RolloutStrategy `json:"rollout,omitempty"`
	// step limits the update of the group by the progress of all workers of the graph, which are updated together. Absent while all workers
	// have the same generation, and in groups that are updated independently.
	// +optional
	Step *RolloutStep `json:"step,omitempty"`
	// restart is the last requested restart. Replicas created before it are outdated.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
	// moves is how replicas leave nodes that are drained or removed. Absent: a successor is created first. InPlace: the replica is deleted
	// first. Never: replicas stay until their pods are evicted.
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

// TemplateInput is a hash of all user and administrator settings that determine the pods of a service. Replicas, scaling adapter and
// topology are not included.
type TemplateInput struct {
	// form is the version of the hash's inputs and algorithm. Hashes of different forms cannot be compared.
	// +required
	Form int32 `json:"form"`
	// hash is the hash in hexadecimal digits.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Hash string `json:"hash"`
}

// RolloutStrategy limits a rolling update.
type RolloutStrategy struct {
	// recreate deletes all replicas of an older revision before any replica is recreated.
	// +optional
	Recreate bool `json:"recreate,omitempty"`
	// maxUnavailable is the maximum number of missing replicas during the update, as a number or a percentage of replicas, rounded down.
	// +required
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
	// maxSurge is the maximum number of surplus replicas during the update, as a number or a percentage of replicas, rounded up.
	// +required
	MaxSurge intstr.IntOrString `json:"maxSurge"`
}

// RolloutStep limits the update of one component by the progress of all workers of the graph. It replaces rollout.
type RolloutStep struct {
	// keep is the minimum number of available replicas of older revisions. The maximum value (2147483647) keeps all of them.
	// +kubebuilder:validation:Minimum=0
	// +required
	Keep int32 `json:"keep"`
	// generations divides keep between older generations. Absent: replicas of any generation count.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	// +listType=map
	// +listMapKey=name
	Generations []GenerationStep `json:"generations,omitempty"`
	// make is the maximum number of replicas of the new revision.
	// +kubebuilder:validation:Minimum=0
	// +required
	Make int32 `json:"make"`
	// paused means that no replica is replaced, available or not.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// maxUnavailable is the maximum number of missing replicas during the step.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxUnavailable int32 `json:"maxUnavailable"`
	// maxSurge is the maximum number of surplus replicas during the step.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxSurge int32 `json:"maxSurge"`
}

// GenerationStep is the number of replicas that one generation of workers keeps.
type GenerationStep struct {
	// name of the generation; empty for workers without a generation.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// keep is the minimum number of available replicas.
	// +kubebuilder:validation:Minimum=0
	// +required
	Keep int32 `json:"keep"`
}

// Restart is a request to recreate every replica.
type Restart struct {
	// id of the request. Pods carry it in the annotation nvidia.com/restartAt.
	// +required
	ID string `json:"id"`
	// stop means that no replica is created until every group of the graph has stopped.
	// +optional
	Stop bool `json:"stop,omitempty"`
}

// ResolvedTopology is a topology constraint as frozen at the first reconcile, or at a later change of the ClusterTopology while no pod was
// placed. Domains are names of levels.
//
// +kubebuilder:validation:XValidation:rule="self.profile == oldSelf.profile && has(self.graphPackDomain) == has(oldSelf.graphPackDomain) && (!has(self.graphPackDomain) || self.graphPackDomain == oldSelf.graphPackDomain) && has(self.graphPreferredPackDomain) == has(oldSelf.graphPreferredPackDomain) && (!has(self.graphPreferredPackDomain) || self.graphPreferredPackDomain == oldSelf.graphPreferredPackDomain) && has(self.packDomain) == has(oldSelf.packDomain) && (!has(self.packDomain) || self.packDomain == oldSelf.packDomain) && has(self.preferredPackDomain) == has(oldSelf.preferredPackDomain) && (!has(self.preferredPackDomain) || self.preferredPackDomain == oldSelf.preferredPackDomain) && has(self.spreadDomain) == has(oldSelf.spreadDomain) && (!has(self.spreadDomain) || self.spreadDomain == oldSelf.spreadDomain) && has(self.preferredSpreadDomain) == has(oldSelf.preferredSpreadDomain) && (!has(self.preferredSpreadDomain) || self.preferredSpreadDomain == oldSelf.preferredSpreadDomain) && has(self.automatic) == has(oldSelf.automatic) && (!has(self.automatic) || self.automatic == oldSelf.automatic) && has(self.kvTransferDomain) == has(oldSelf.kvTransferDomain) && (!has(self.kvTransferDomain) || self.kvTransferDomain == oldSelf.kvTransferDomain) && has(self.kvTransferRequired) == has(oldSelf.kvTransferRequired) && (!has(self.kvTransferRequired) || self.kvTransferRequired == oldSelf.kvTransferRequired)",reason=FieldValueForbidden,message="topology is immutable and cannot be added, removed, or changed, except for its levels and nodeSelector: it is what the graph was created with"
type ResolvedTopology struct {
	// profile is the name of the ClusterTopology with the levels.
	// +kubebuilder:validation:MaxLength=253
	// +required
	ClusterTopology string `json:"profile"`
	// levels from the broadest to the narrowest.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	Levels []ResolvedLevel `json:"levels"`
	// nodeSelector of the ClusterTopology.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// graphPackDomain is the level at which all pods of the graph share one domain.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	GraphPackDomain string `json:"graphPackDomain,omitempty"`
	// graphPreferredPackDomain is the level at which all pods of the graph share one domain if there is capacity.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	GraphPreferredPackDomain string `json:"graphPreferredPackDomain,omitempty"`
	// packDomain is the level at which each unit of this service shares one domain.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// preferredPackDomain is the level at which each unit shares one domain if there is capacity.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
	// spreadDomain is the level over whose domains the replicas of this service are spread.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	SpreadDomain string `json:"spreadDomain,omitempty"`
	// preferredSpreadDomain is the level over whose domains the replicas are spread as far as there is capacity.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PreferredSpreadDomain string `json:"preferredSpreadDomain,omitempty"`
	// kvTransferDomain is the level at which prefill and decode replicas have to share domains, from the deployment's kvTransferPolicy. Set
	// for components of these two roles, if the operator that created the deployment supports the field.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	KVTransferDomain string `json:"kvTransferDomain,omitempty"`
	// kvTransferRequired means that the policy's enforcement is "required": a new domain is used only if a replica of each role is placed
	// in it.
	// +optional
	KVTransferRequired bool `json:"kvTransferRequired,omitempty"`
	// automatic means that the graph has no constraint of its own, and that this constraint is from the cluster's default topology.
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

// Role is a group of identical pods within each replica.
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
	// Template of the pods. It has no schema: only the operator writes it, and the API server validates the pods.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Template corev1.PodTemplateSpec `json:"template"`
}

// ScalingGroup owns all replicas of one service of a graph. Its scale subresource reports pods, for disruption budgets only; writes to the
// subresource are rejected.
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

	// spec is the desired state of one service, resolved by the operator.
	// +required
	Spec ScalingGroupSpec `json:"spec"`
	// status is the observed state of the service.
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
	// ConditionPodsInSync is False if the API server refused to create or delete a pod of the group, e.g. because of a quota.
	ConditionPodsInSync = "PodsInSync"
	// ConditionRolledOut is False while replicas of an older revision, or from before the last restart, are being replaced.
	ConditionRolledOut = "RolledOut"
	// ConditionPodsHealthy is False while replicas fail, or pods do not start, are not ready or do not terminate, and absent otherwise.
	ConditionPodsHealthy = "PodsHealthy"

	// ConditionMoved is False while replicas have to leave their nodes, and absent otherwise.
	ConditionMoved = "Moved"

	// ConditionPlacementsComplete was set by earlier releases. It is removed, since the GraphPlacement records the places of replicas.
	ConditionPlacementsComplete = "PlacementsComplete"

	ReasonInSync        = "InSync"
	ReasonChangeRefused = "ChangeRefused"

	// ReasonReplicaFailed: pods ended; their replicas are recreated after a delay.
	ReasonReplicaFailed = "ReplicaFailed"
	// ReasonPodsNotStarting: pods are bound, but their kubelets cannot start their containers.
	ReasonPodsNotStarting = "PodsNotStarting"
	// ReasonPodsNotReady: the containers of pods run, but their probes fail or their nodes are not ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonPodsNotEnding: pods were deleted, but still exist after their grace period.
	ReasonPodsNotEnding = "PodsNotEnding"

	// ReasonMoving: successors of replicas that have to leave their nodes are being created or are starting.
	ReasonMoving = "Moving"
	// ReasonMoveWaits: a replica should have left its nodes already, but stays because too few other replicas serve.
	ReasonMoveWaits = "MoveWaits"

	ReasonUpToDate                = "UpToDate"
	ReasonRollingOut              = "RollingOut"
	ReasonRolloutWaitsForCapacity = "RolloutWaitsForCapacity"
)
