// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

// Codes of replicas that wait for something other than capacity, in addition to the codes of package placement.
const (
	// CodeRequeued means that the replica was released, could not be bound, and was requeued.
	CodeRequeued = "Requeued"
	// CodeCreating means that not all pods of the gang exist yet.
	CodeCreating = "Creating"
	// CodeProviderNotReady means that the graph's provider does not work in this cluster, or does not suit this graph.
	CodeProviderNotReady = "ProviderNotReady"
	// CodeSchedulerRefuses means that the replica was placed and released, but the provider's scheduler does not bind it to its place.
	CodeSchedulerRefuses = "SchedulerRefuses"
	// CodeUnschedulable means that the replica was placed and released, but the kube-scheduler refuses one of its pods.
	CodeUnschedulable = "Unschedulable"
	// CodeSchedulingBlocked means that the replica was released, but no scheduler tries to bind one of its pods.
	CodeSchedulingBlocked = "SchedulingBlocked"
	// CodePreempting means that the replica was placed, but pods of lower priority must be preempted before it can be bound.
	CodePreempting = "PreemptionPending"
	// CodePodsNotEnding means that the replica must be recreated, but one of its deleted pods does not terminate.
	CodePodsNotEnding = "PodsNotEnding"
	// CodeWaitingForAdmission means that pods of the gang have scheduling gates of other controllers, such as Kueue's. The gang is planned
	// when these gates are removed.
	CodeWaitingForAdmission = "WaitingForAdmission"
	// CodeReleaseRefused means that the replica has capacity, but the API server repeatedly refuses the writes of its release.
	CodeReleaseRefused = "ReleaseRefused"
	// CodeRecordFull means that the replica has capacity, but the GraphPlacement of its deployment has no space for it.
	CodeRecordFull = "RecordFull"
	// CodeOutsideGraphDomain means that pods are outside the domain that must hold the deployment.
	CodeOutsideGraphDomain = "OutsideGraphDomain"
	// CodeOutsideReplicaDomain means that pods of a replica, or of a single-node component, are outside the domain that must hold all of
	// its pods.
	CodeOutsideReplicaDomain = "OutsideReplicaDomain"
	// CodeRefusedEverywhere means that a scheduler refused the replica in every domain that has capacity for it by Trellis' count.
	CodeRefusedEverywhere = "RefusedEverywhere"
)

// BeingCreated is the message of [CodeCreating].
const BeingCreated = "its pods are being created"

// ConstraintRefreshed is the message of [CodeCreating] while the scaling groups of a graph get the current levels of their ClusterTopology.
const ConstraintRefreshed = "its constraint is resolved anew, because the ClusterTopology has changed and no pod is placed yet"

// FollowsRecorded is the message of [CodeCreating] for replicas that wait while the recorded gangs of their graph are released.
const FollowsRecorded = "it waits for gangs of its deployment that are released to their recorded places, which decide the domain of all"
