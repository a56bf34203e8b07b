// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State sums the deployment up in one word, for programs that read no conditions.
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
	// ConditionReady is True when every component serves with its wanted replicas at the current revision. It is never Unknown.
	ConditionReady = "Ready"
	// ConditionTopologyLevelsAvailable, only on deployments with a constraint, is True while every level they use exists in the
	// ClusterTopology.
	ConditionTopologyLevelsAvailable = "TopologyLevelsAvailable"
	// ConditionQuotaReserved, only on deployments in a queue of Kueue, is True while all of the deployment has quota.
	ConditionQuotaReserved = "QuotaReserved"
	// ConditionPlaced is True when every replica wanted has been given its place.
	ConditionPlaced = "Placed"
	// ConditionValid is False when the object would have been refused at admission; nothing new is done for it until it is mended.
	ConditionValid = "Valid"
	// ConditionTopologyConstraintInSync is False when annotations about topology were changed after they had been taken over.
	ConditionTopologyConstraintInSync = "TopologyConstraintInSync"
	// ConditionWithinPodLimit is False when the deployment asks for more pods than one graph may have, past admission.
	ConditionWithinPodLimit = "WithinPodLimit"
	// ConditionOrphansAdopted, only while it is False: objects of an earlier deployment of the same name, deleted with --cascade=orphan,
	// cannot be adopted.
	ConditionOrphansAdopted = "OrphansAdopted"
	// ConditionOwnershipConflict is True while an object that the deployment needs belongs to another controller, so that it is neither
	// changed nor deleted. It is False after that, and absent if there never was a conflict.
	ConditionOwnershipConflict = "OwnershipConflict"
	// ConditionMemoryReadable, only while it is False: the annotations that keep what the other version of the API alone can say cannot be
	// read, and are ignored.
	ConditionMemoryReadable = "MemoryReadable"
	// ConditionPlacementsComplete, only while it is False: the status has no space for the places of all replicas that are to be listed.
	ConditionPlacementsComplete = "PlacementsComplete"
	// ConditionRolledOut, only while it is False: replicas are being replaced by an update or a restart, or an update was aborted.
	ConditionRolledOut = "RolledOut"
	// ConditionMoved, only while it is False: replicas are to leave nodes that are drained or removed.
	ConditionMoved = "Moved"
	// ConditionProviderReady is True while what gets the deployment's gangs onto nodes works in this cluster. While it is False nothing new
	// is made for the deployment, and nothing that runs is touched.
	ConditionProviderReady = "ProviderReady"
)

// Reasons of ConditionProviderReady.
const (
	// ReasonProviderAvailable: the cluster serves all that the provider needs.
	ReasonProviderAvailable = "ProviderAvailable"
	// ReasonProviderFrozen: the provider works; another one is asked for than the one the deployment's pods were made for.
	ReasonProviderFrozen = "ProviderFrozen"
	// ReasonAPINotServed: the API server does not serve a kind that the provider needs.
	ReasonAPINotServed = "APINotServed"
	// ReasonFieldsDropped: the API server takes the provider's objects and drops fields of them without a word.
	ReasonFieldsDropped = "FieldsDropped"
	// ReasonProviderUnsupported: the provider cannot hold this graph together.
	ReasonProviderUnsupported = "ProviderUnsupported"
	// ReasonProviderNotChecked: the API server could not be asked.
	ReasonProviderNotChecked = "ProviderNotChecked"
)

// Reasons of ConditionRolledOut.
const (
	ReasonRollingOut              = "RollingOut"
	ReasonRolloutWaitsForCapacity = "RolloutWaitsForCapacity"
	// ReasonRolloutPaused: the user has paused the update.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonRolledBack: the user has aborted the update, and the workers are of the generation before.
	ReasonRolledBack = "RolledBack"
	// ReasonProgressDeadlineExceeded: no further replica became available for as long as the user allows.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// Reasons of ConditionMoved.
const (
	// ReasonMoving: successors of the replicas are created, or start.
	ReasonMoving = "Moving"
	// ReasonMoveWaits: a replica is overdue, and too few others serve for it to go.
	ReasonMoveWaits = "MoveWaits"
)

// Reasons of ConditionTopologyLevelsAvailable.
const (
	ReasonAllTopologyLevelsAvailable = "AllTopologyLevelsAvailable"
	ReasonTopologyLevelsUnavailable  = "TopologyLevelsUnavailable"
	ReasonTopologyDefinitionNotFound = "TopologyDefinitionNotFound"
)

// Reasons of ConditionReady. They are snake_case because programs that read them were written for these words.
const (
	ReasonAllResourcesReady     = "all_resources_are_ready"
	ReasonSomeResourcesNotReady = "some_resources_are_not_ready"
	ReasonRollingUpdate         = "rolling_update_in_progress"
	ReasonFailedToReconcile     = "failed_to_reconcile_the_resources"
	ReasonInsufficientCapacity  = "insufficient_capacity"
	ReasonPodsNotReady          = "pods_not_ready"
	ReasonMixedNotReady         = "mixed_not_ready_reasons"
)

// ConditionPrerequisitesMet is False when something that the deployment needs and Trellis does not make is not there: a volume claim, a
// kind.
const (
	ConditionPrerequisitesMet = "PrerequisitesMet"

	ReasonAllPrerequisitesMet  = "AllPrerequisitesMet"
	ReasonPrerequisitesMissing = "PrerequisitesMissing"
)

// ReasonAllReplicasPlaced means that every packed replica is placed (ConditionPlaced). While it is False the reason is the planner's code.
const ReasonAllReplicasPlaced = "AllReplicasPlaced"

// ReasonCreationRefused means that scaling groups or pods of the deployment cannot be created (ConditionPlaced).
const ReasonCreationRefused = "CreationRefused"

// Reasons of ConditionQuotaReserved.
const (
	// ReasonQuotaReserved: every gang has quota.
	ReasonQuotaReserved = "QuotaReserved"
	// ReasonQuotaPending: a gang waits for quota, or lost it; the message has Kueue's own.
	ReasonQuotaPending = "QuotaPending"
	// ReasonKueueNotInstalled: the API server does not serve Workloads of Kueue, so nothing new of the deployment is made.
	ReasonKueueNotInstalled = "KueueNotInstalled"
	// ReasonKueueNotReadable: Workloads cannot be read yet, since the operator lacks the rights, or was just started.
	ReasonKueueNotReadable = "KueueNotReadable"
	// ReasonTooManyRoles: the base gang has more roles than a Workload has podsets.
	ReasonTooManyRoles = "TooManyRoles"
	// ReasonFlavorHasTopology: Kueue chooses the nodes, too, because a flavor names a topology.
	ReasonFlavorHasTopology = "FlavorHasTopology"
)

// ReasonOrphansLeft means that objects of an earlier deployment are not adopted (ConditionOrphansAdopted).
const ReasonOrphansLeft = "OrphansLeft"

// Reasons of ConditionOwnershipConflict.
const (
	ReasonOwnershipConflict         = "OwnershipConflict"
	ReasonOwnershipConflictResolved = "OwnershipConflictResolved"
)

// ReasonPlacementsShortened means that fewer places are listed (ConditionPlacementsComplete).
const ReasonPlacementsShortened = "PlacementsShortened"

// ReasonInvalid means that the object holds something that admission would have refused (ConditionValid).
const ReasonInvalid = "Invalid"

// ReasonPodLimitExceeded means that the graph has fewer replicas than it asks for (ConditionWithinPodLimit), and is not Ready for that
// reason.
const ReasonPodLimitExceeded = "PodLimitExceeded"

// ReasonMemoryIgnored means that the annotations are ignored (ConditionMemoryReadable).
const ReasonMemoryIgnored = "MemoryIgnored"

// ReasonFrozenConstraintHolds means that the constraint is the one taken over at creation (ConditionTopologyConstraintInSync).
const ReasonFrozenConstraintHolds = "FrozenConstraintHolds"

// What status.placement.score is worth: every replica counts in it, some are not placed yet, or it is not known.
const (
	PlacementReported    = "Reported"
	PlacementPartial     = "Partial"
	PlacementUnsupported = "Unsupported"
	PlacementUnknown     = "Unknown"
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
	RollingUpdateFailed     = "Failed"
)

// ComponentKindScalingGroup is the kind reported in status.components.
const ComponentKindScalingGroup = "ScalingGroup"

// DynamoGraphDeploymentStatus is what the deployment has come to.
type DynamoGraphDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State sums the conditions up in one word.
	// +kubebuilder:default=initializing
	// +optional
	State State `json:"state,omitempty"`
	// Conditions of the deployment.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Components by name.
	// +optional
	Components map[string]ComponentStatus `json:"components,omitempty"`
	// Summary counts components that have all their replicas ready, as "ready/desired".
	// +optional
	Summary string `json:"summary,omitempty"`
	// Restart in progress, or the last one.
	// +optional
	Restart *RestartStatus `json:"restart,omitempty"`
	// Checkpoints by component.
	// +optional
	Checkpoints map[string]CheckpointStatus `json:"checkpoints,omitempty"`
	// RollingUpdate in progress, or the last one.
	// +optional
	RollingUpdate *RollingUpdateStatus `json:"rollingUpdate,omitempty"`
	// Placement of the entire graph.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// Provider is what gets the deployment's gangs onto nodes: Gates, PodGroup, KAI or Grove.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Provider string `json:"engine,omitempty"`
}

// ComponentStatus counts one component's replicas.
type ComponentStatus struct {
	// ComponentKind is the kind of the object that owns the replicas.
	// +kubebuilder:validation:Enum=ScalingGroup;PodClique;PodCliqueScalingGroup;Deployment;LeaderWorkerSet
	ComponentKind string `json:"componentKind"`
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
	// RuntimeNamespace is the Dynamo namespace of the component's pods.
	// +optional
	RuntimeNamespace string `json:"runtimeNamespace,omitempty"`
	// GPUsPerEngine is the number of GPUs of the main containers of one replica together. Absent: unknown for the current spec.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUsPerEngine *int64 `json:"gpusPerEngine,omitempty"`
	// GPUsPerReplica is the number of GPUs that all pods of one replica hold: main containers, sidecars and init containers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUsPerReplica *int64 `json:"gpusPerReplica,omitempty"`
	// Placements lists where each replica sits; at most 64, lowest ordinals first. See the condition PlacementsComplete.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=replica
	// +optional
	Placements []ReplicaPlacement `json:"placements,omitempty"`
}

// ReplicaPlacement is where one replica sits.
type ReplicaPlacement struct {
	// Replica is the ordinal.
	Replica int32 `json:"replica"`
	// Domain is the path of label values from the broadest level down.
	Domain string `json:"domain"`
}

// RestartStatus follows one restart request.
type RestartStatus struct {
	// ObservedID is the request this describes.
	// +optional
	ObservedID string `json:"observedID,omitempty"`
	// Phase of the restart: Pending, Restarting, Completed, Failed or Superseded.
	// +optional
	Phase string `json:"phase,omitempty"`
	// InProgress lists the components restarting now.
	// +listType=atomic
	// +optional
	InProgress []string `json:"inProgress,omitempty"`
}

// CheckpointStatus of one component.
type CheckpointStatus struct {
	// CheckpointName of the component.
	// +optional
	CheckpointName string `json:"checkpointName,omitempty"`
	// CheckpointID of the stored state. From Dynamo 1.5.
	// +optional
	CheckpointID string `json:"checkpointID,omitempty"`
	// IdentityHash of what was stored.
	// +optional
	IdentityHash string `json:"identityHash,omitempty"`
	// Ready checkpoint.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// RollingUpdateStatus follows one rolling update.
type RollingUpdateStatus struct {
	// Phase: Pending, InProgress, Completed or Failed.
	// +kubebuilder:validation:Enum=Pending;InProgress;Completed;Failed;""
	// +optional
	Phase string `json:"phase,omitempty"`
	// StartTime of the update.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// EndTime of the update.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// UpdatedComponents lists the components done.
	// +listType=atomic
	// +optional
	UpdatedComponents []string `json:"updatedComponents,omitempty"`
}

// PlacementStatus is where the entire graph is placed.
type PlacementStatus struct {
	// Domain is the graph domain: the path of label values from the broadest level down.
	// +optional
	Domain string `json:"domain,omitempty"`
	// Score from 0 to 1 is how tight the placement of the worst placed unit is; 1 is the tightest.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	Score *float64 `json:"score,omitempty"`
	// State describes what the score is worth: Reported, Partial, Unsupported or Unknown.
	// +kubebuilder:validation:Enum=Reported;Partial;Unsupported;Unknown
	// +optional
	State string `json:"state,omitempty"`
	// DecodePaired is the share of decode with prefill in its domain, in percent.
	// +optional
	DecodePaired *int32 `json:"decodePaired,omitempty"`
	// PrefillPaired is the reverse.
	// +optional
	PrefillPaired *int32 `json:"prefillPaired,omitempty"`
}
