// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State summarizes the deployment in one word, for programs that read no conditions.
//
// +kubebuilder:validation:Enum=initializing;pending;successful;failed
type State string

// The states of a deployment.
const (
	StateInitializing State = "initializing"
	StatePending      State = "pending"
	StateSuccessful   State = "successful"
	StateFailed       State = "failed"
)

// Condition types of a deployment.
const (
	// ConditionReady is True when every service serves with its desired replicas at the current revision. It is never Unknown.
	ConditionReady = "Ready"
	// ConditionTopologyLevelsAvailable is True while every level that the deployment uses exists in the ClusterTopology. It is absent on
	// deployments without a constraint.
	ConditionTopologyLevelsAvailable = "TopologyLevelsAvailable"
	// ConditionQuotaReserved is True while the entire deployment has quota. It is absent on deployments outside Kueue's queues.
	ConditionQuotaReserved = "QuotaReserved"
	// ConditionPlaced is True when every desired replica has a place.
	ConditionPlaced = "Placed"
	// ConditionValid is False if admission would refuse the object; the operator does nothing new for the deployment until it is fixed.
	ConditionValid = "Valid"
	// ConditionTopologyConstraintInSync is False if topology annotations changed after the operator froze the constraint.
	ConditionTopologyConstraintInSync = "TopologyConstraintInSync"
	// ConditionWithinPodLimit is False if the deployment requests more pods than the limit per graph, e.g. because it bypassed admission.
	ConditionWithinPodLimit = "WithinPodLimit"
	// ConditionOrphansAdopted is False if objects of an earlier deployment of the same name, deleted with --cascade=orphan, cannot be
	// adopted, and absent otherwise.
	ConditionOrphansAdopted = "OrphansAdopted"
	// ConditionOwnershipConflict is True while an object that the deployment needs belongs to another controller. The operator neither
	// changes nor deletes the object. It becomes False when the conflict is resolved, and is absent if there never was one.
	ConditionOwnershipConflict = "OwnershipConflict"
	// ConditionMemoryReadable is False if the annotations that preserve fields of the other API version cannot be read and are ignored, and
	// absent otherwise.
	ConditionMemoryReadable = "MemoryReadable"
	// ConditionPlacementsComplete is False while the status has no space for the places of all replicas, and absent otherwise.
	ConditionPlacementsComplete = "PlacementsComplete"
	// ConditionRolledOut is False while an update or a restart replaces replicas, or after an update was aborted, and absent otherwise.
	ConditionRolledOut = "RolledOut"
	// ConditionProviderReady is True while the deployment's provider works in this cluster. While it is False, the operator creates nothing
	// for the deployment and does not touch running pods.
	ConditionProviderReady = "ProviderReady"
)

// Reasons of ConditionProviderReady.
const (
	// ReasonProviderAvailable: the cluster serves every API that the provider needs.
	ReasonProviderAvailable = "ProviderAvailable"
	// ReasonProviderFrozen: the provider works, but the deployment requests a provider other than the provider of its pods.
	ReasonProviderFrozen = "ProviderFrozen"
	// ReasonAPINotServed: the API server does not serve a kind that the provider needs.
	ReasonAPINotServed = "APINotServed"
	// ReasonFieldsDropped: the API server silently drops fields of the provider's objects.
	ReasonFieldsDropped = "FieldsDropped"
	// ReasonProviderUnsupported: the provider cannot place this graph as a unit.
	ReasonProviderUnsupported = "ProviderUnsupported"
	// ReasonProviderNotChecked: the operator could not query the API server.
	ReasonProviderNotChecked = "ProviderNotChecked"
)

// Reasons of ConditionRolledOut.
const (
	ReasonRollingOut              = "RollingOut"
	ReasonRolloutWaitsForCapacity = "RolloutWaitsForCapacity"
)

// Reasons of ConditionTopologyLevelsAvailable.
const (
	ReasonAllTopologyLevelsAvailable = "AllTopologyLevelsAvailable"
	ReasonTopologyLevelsUnavailable  = "TopologyLevelsUnavailable"
	ReasonTopologyDefinitionNotFound = "TopologyDefinitionNotFound"
)

// Reasons of ConditionReady. They are snake_case for compatibility with programs that read them.
const (
	ReasonAllResourcesReady     = "all_resources_are_ready"
	ReasonSomeResourcesNotReady = "some_resources_are_not_ready"
	ReasonRollingUpdate         = "rolling_update_in_progress"
	ReasonFailedToReconcile     = "failed_to_reconcile_the_resources"
	ReasonInsufficientCapacity  = "insufficient_capacity"
	ReasonPodsNotReady          = "pods_not_ready"
	ReasonMixedNotReady         = "mixed_not_ready_reasons"
)

// ConditionPrerequisitesMet is False if an object that the deployment needs and Trellis does not create is missing: a volume claim or an
// API kind.
const (
	ConditionPrerequisitesMet = "PrerequisitesMet"

	ReasonAllPrerequisitesMet  = "AllPrerequisitesMet"
	ReasonPrerequisitesMissing = "PrerequisitesMissing"
)

// ReasonAllReplicasPlaced means that every packed replica is placed (ConditionPlaced). While the condition is False, its reason is the
// planner's code.
const ReasonAllReplicasPlaced = "AllReplicasPlaced"

// ReasonCreationRefused means that scaling groups or pods of the deployment cannot be created (ConditionPlaced).
const ReasonCreationRefused = "CreationRefused"

// Reasons of ConditionQuotaReserved.
const (
	// ReasonQuotaReserved: every gang has quota.
	ReasonQuotaReserved = "QuotaReserved"
	// ReasonQuotaPending: a gang waits for quota, or lost it; the message includes Kueue's message.
	ReasonQuotaPending = "QuotaPending"
	// ReasonKueueNotInstalled: the API server does not serve Kueue's Workloads, so the operator creates nothing new for the deployment.
	ReasonKueueNotInstalled = "KueueNotInstalled"
	// ReasonKueueNotReadable: the operator cannot read Workloads yet: it lacks the permission or has just started.
	ReasonKueueNotReadable = "KueueNotReadable"
	// ReasonTooManyRoles: the base gang has more roles than a Workload can have podsets.
	ReasonTooManyRoles = "TooManyRoles"
	// ReasonFlavorHasTopology: a flavor names a topology, so Kueue would choose the nodes, too.
	ReasonFlavorHasTopology = "FlavorHasTopology"
)

// ReasonOrphansLeft means that objects of an earlier deployment were not adopted (ConditionOrphansAdopted).
const ReasonOrphansLeft = "OrphansLeft"

// Reasons of ConditionOwnershipConflict.
const (
	ReasonOwnershipConflict         = "OwnershipConflict"
	ReasonOwnershipConflictResolved = "OwnershipConflictResolved"
)

// ReasonPlacementsShortened means that status.services does not list all places (ConditionPlacementsComplete).
const ReasonPlacementsShortened = "PlacementsShortened"

// ReasonInvalid means that admission would refuse the object (ConditionValid).
const ReasonInvalid = "Invalid"

// ReasonPodLimitExceeded means that the graph has fewer replicas than desired (ConditionWithinPodLimit), and is therefore not Ready.
const ReasonPodLimitExceeded = "PodLimitExceeded"

// ReasonMemoryIgnored means that the preserved-fields annotations are ignored (ConditionMemoryReadable).
const ReasonMemoryIgnored = "MemoryIgnored"

// ReasonFrozenConstraintHolds means that the constraint frozen at creation still applies (ConditionTopologyConstraintInSync).
const ReasonFrozenConstraintHolds = "FrozenConstraintHolds"

// Values of status.placement.state: whether status.placement.score is complete, partial or unknown.
const (
	PlacementReported = "Reported"
	PlacementPartial  = "Partial"
	PlacementUnknown  = "Unknown"
)

// Phases of a restart and of a rolling update.
const (
	RestartPending    = "Pending"
	RestartRestarting = "Restarting"
	RestartCompleted  = "Completed"
	RestartFailed     = "Failed"
	RestartSuperseded = "Superseded"

	RollingUpdatePending    = "Pending"
	RollingUpdateInProgress = "InProgress"
	RollingUpdateCompleted  = "Completed"
)

// ComponentKindScalingGroup is the kind reported in status.services.
const ComponentKindScalingGroup = "ScalingGroup"

// DynamoGraphDeploymentStatus is the observed state of the deployment.
type DynamoGraphDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State summarizes the conditions in one word.
	// +kubebuilder:default=initializing
	// +optional
	State State `json:"state,omitempty"`
	// Conditions of the deployment.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Services by name.
	// +optional
	Services map[string]ServiceStatus `json:"services,omitempty"`
	// Summary counts services with all replicas ready, as "ready/desired".
	// +optional
	Summary string `json:"summary,omitempty"`
	// Restart is the restart in progress, or the last restart.
	// +optional
	Restart *RestartStatus `json:"restart,omitempty"`
	// Checkpoints by service.
	// +optional
	Checkpoints map[string]CheckpointStatus `json:"checkpoints,omitempty"`
	// RollingUpdate is the rolling update in progress, or the last rolling update.
	// +optional
	RollingUpdate *RollingUpdateStatus `json:"rollingUpdate,omitempty"`
	// Placement of the entire graph.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// Provider schedules the deployment's gangs: Gates, PodGroup, KAI or Grove.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Provider string `json:"engine,omitempty"`
}

// ServiceStatus counts one service's replicas.
type ServiceStatus struct {
	// ComponentKind is the kind of the object that owns the replicas.
	ComponentKind string `json:"componentKind"`
	// ComponentName is the name of that object. Deprecated: use componentNames.
	ComponentName string `json:"componentName"`
	// ComponentNames are the names of the objects that own the replicas.
	// +listType=atomic
	// +optional
	ComponentNames []string `json:"componentNames,omitempty"`
	// Replicas that exist.
	Replicas int32 `json:"replicas"`
	// UpdatedReplicas run the current revision.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// ReadyReplicas have every pod Ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas are ready and not terminating.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
	// ScheduledReplicas have every pod bound to a node.
	// +optional
	ScheduledReplicas *int32 `json:"scheduledReplicas,omitempty"`
	// RuntimeNamespace is the Dynamo namespace of the service's pods.
	// +optional
	RuntimeNamespace string `json:"runtimeNamespace,omitempty"`
	// GPUsPerEngine is the number of GPUs of all main containers of one replica. Absent: unknown for the current spec.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUsPerEngine *int64 `json:"gpusPerEngine,omitempty"`
	// GPUsPerReplica is the number of GPUs of all pods of one replica: main containers, sidecars and init containers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUsPerReplica *int64 `json:"gpusPerReplica,omitempty"`
	// Placements lists the domain of each replica; at most 64, lowest ordinals first. See the condition PlacementsComplete.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=replica
	// +optional
	Placements []ReplicaPlacement `json:"placements,omitempty"`
}

// ReplicaPlacement is the domain of one replica.
type ReplicaPlacement struct {
	// Replica is the ordinal.
	Replica int32 `json:"replica"`
	// Domain is the path of label values from the broadest level down.
	Domain string `json:"domain"`
}

// RestartStatus is the progress of one restart request.
type RestartStatus struct {
	// ObservedID is the id of the described request.
	// +optional
	ObservedID string `json:"observedID,omitempty"`
	// Phase of the restart: Pending, Restarting, Completed, Failed or Superseded.
	// +optional
	Phase string `json:"phase,omitempty"`
	// InProgress lists the services restarting now.
	// +listType=atomic
	// +optional
	InProgress []string `json:"inProgress,omitempty"`
}

// CheckpointStatus of one service.
type CheckpointStatus struct {
	// CheckpointName of the service.
	// +optional
	CheckpointName string `json:"checkpointName,omitempty"`
	// CheckpointID of the stored state. From Dynamo 1.5.
	// +optional
	CheckpointID string `json:"checkpointID,omitempty"`
	// IdentityHash of the stored state.
	// +optional
	IdentityHash string `json:"identityHash,omitempty"`
	// Ready means that the checkpoint is ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// RollingUpdateStatus is the progress of one rolling update.
type RollingUpdateStatus struct {
	// Phase: Pending, InProgress or Completed.
	// +optional
	Phase string `json:"phase,omitempty"`
	// StartTime of the update.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// EndTime of the update.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// UpdatedServices lists the updated services.
	// +listType=atomic
	// +optional
	UpdatedServices []string `json:"updatedServices,omitempty"`
}

// PlacementStatus is the placement of the entire graph.
type PlacementStatus struct {
	// Domain is the graph domain: the path of label values from the broadest level down.
	// +optional
	Domain string `json:"domain,omitempty"`
	// Score from 0 to 1 is the tightness of the placement; 1 is the tightest.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	Score *float64 `json:"score,omitempty"`
	// State is Reported, Partial or Unknown.
	// +optional
	State string `json:"state,omitempty"`
	// DecodePaired is the percentage of decode replicas whose domain also contains prefill replicas.
	// +optional
	DecodePaired *int32 `json:"decodePaired,omitempty"`
	// PrefillPaired is the percentage of prefill replicas whose domain also contains decode replicas.
	// +optional
	PrefillPaired *int32 `json:"prefillPaired,omitempty"`
}
