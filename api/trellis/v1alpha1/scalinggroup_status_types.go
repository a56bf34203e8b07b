// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ScalingGroupStatus is the observed state of a ScalingGroup. Counts are of replicas, except pods.
type ScalingGroupStatus struct {
	// observedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas that exist, complete or not.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// pods that exist and neither terminate nor have ended. Absent if it is 0, and if the provider creates the pods itself.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// selector selects the pods of the group, as a label selector in its string form.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`
	// updatedReplicas are replicas with every pod at the current revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// scheduledReplicas are replicas with every pod bound to a node.
	// +optional
	ScheduledReplicas int32 `json:"scheduledReplicas,omitempty"`
	// readyReplicas are replicas with every pod Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// availableReplicas are Ready replicas that are not terminating.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// outdatedReplicas are replicas of an older revision, or from before the last requested restart.
	// +optional
	OutdatedReplicas int32 `json:"outdatedReplicas,omitempty"`
	// updatedAvailableReplicas are the available replicas of the current revision.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// terminatingReplicas are outdated replicas with only terminating pods left.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas,omitempty"`
	// generations of the outdated worker replicas, at most 8: the generations with the most available replicas.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	// +listType=map
	// +listMapKey=name
	Generations []GenerationCount `json:"generations,omitempty"`
	// progress of the running update. Absent while no update runs.
	// +optional
	Progress *RolloutProgress `json:"progress,omitempty"`
	// revision that was last rolled out completely. It differs from spec.revision while an update runs.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`
	// begun was set by earlier releases when the first replicas were bound. The operator ignores it.
	//
	// Deprecated: the GraphPlacement records which gangs are bound.
	// +optional
	Begun bool `json:"begun,omitempty"`
	// restart is the ID of the last restart that was rolled out completely. It is set only if the provider creates the pods. Pods that
	// Trellis creates have the ID as an annotation instead.
	// +optional
	Restart string `json:"restart,omitempty"`
	// placements was set by earlier releases to the last domain of each replica. Nothing reads it.
	//
	// Deprecated: the GraphPlacement records the places of replicas.
	// +optional
	// +listType=map
	// +listMapKey=replica
	Placements []ReplicaPlacement `json:"placements,omitempty"`
	// furtherPlacements was set by earlier releases to the last domains of the replicas for which placements had no space. Nothing reads
	// it.
	//
	// Deprecated: the GraphPlacement records the places of replicas.
	// +optional
	// +listType=atomic
	FurtherPlacements []DomainPlacements `json:"furtherPlacements,omitempty"`
	// failedReplicas are replicas with pods that ended. A replica is removed from the list after five minutes Ready. The delay before a
	// failed replica is recreated doubles with each failure.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	// +listType=map
	// +listMapKey=replica
	FailedReplicas []FailedReplica `json:"failedReplicas,omitempty"`
	// moves are the replicas that have to leave their nodes, at most 256. Further replicas wait.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	// +listType=map
	// +listMapKey=replica
	Moves []ReplicaMove `json:"moves,omitempty"`
	// conditions of the group.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MaxGenerations is the maximum length of status.generations.
const MaxGenerations = 8

// GenerationCount counts the outdated replicas of one generation of workers.
type GenerationCount struct {
	// name of the generation; empty for workers without a generation.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// replicas that exist, complete or not.
	// +required
	Replicas int32 `json:"replicas"`
	// availableReplicas are Ready replicas that are not terminating.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`
}

// RolloutProgress is the last progress of an update.
type RolloutProgress struct {
	// revision that is being rolled out.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// availableReplicas is the highest number of available replicas of the revision so far.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`
	// paused means that the update is paused.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// inPlace means that the Kueue queue had no quota for a surplus replica: the rest of the update replaces one replica at a time, within
	// the existing quota.
	// +optional
	InPlace bool `json:"inPlace,omitempty"`
	// time at which the update began, was resumed, or reached availableReplicas.
	// +required
	Time metav1.Time `json:"time"`
}

// MaxMoves is the maximum length of status.moves.
const MaxMoves = 256

// ReplicaMove is a replica that has to leave its nodes.
type ReplicaMove struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// why the replica has to leave: its node is drained or removed, the eviction of a pod was requested, or its place is needed for other
	// replicas.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Why string `json:"why"`
	// since is when the operator detected that the replica has to leave.
	// +required
	Since metav1.Time `json:"since"`
	// inPlaceAt is when the replica is removed without a successor. A replica that has to leave only because its place is needed waits for
	// a successor.
	// +required
	InPlaceAt metav1.Time `json:"inPlaceAt"`
	// inPlace means that inPlaceAt has passed, or that there is no quota for a successor.
	// +optional
	InPlace bool `json:"inPlace,omitempty"`
}

// FailedReplica is a replica with a pod that ended.
type FailedReplica struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// failures counts the consecutive failures, from 1.
	// +required
	Failures int32 `json:"failures"`
	// reason names the pod that ended last, and why it ended.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Reason string `json:"reason"`
	// newestPod is the creation time of the newest pod of the failed replica. Only pods created later count as a further failure.
	// +required
	NewestPod metav1.Time `json:"newestPod"`
	// retryAt is when the replica may be recreated.
	// +required
	RetryAt metav1.Time `json:"retryAt"`
	// revision of the group at the last failure. Another revision resets the failures.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// restart is the ID of the last restart at the last failure. Another restart resets the failures.
	// +optional
	Restart string `json:"restart,omitempty"`
	// hosts whose kubelets rejected pods of the replica, most rejections first. From the second rejection on, a host is the last choice for
	// the replica, and the replica does not prefer its former domain.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	// +listType=map
	// +listMapKey=name
	Hosts []RejectingHost `json:"hosts,omitempty"`
}

// RejectingHost is a node whose kubelet rejected pods of a replica before any of their containers ran.
type RejectingHost struct {
	// name of the node.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// rejections of the replica's pods, 1 or more; simultaneous rejections count once.
	// +required
	Rejections int32 `json:"rejections"`
	// reason of the last rejection, as the kubelet reports it, e.g. UnexpectedAdmissionError.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
}

// DomainPlacements are the replicas whose current or last domain is the same.
type DomainPlacements struct {
	// domain is the path of label values from the broadest level down, e.g. "zone-0/block-1/rack-2".
	// +required
	Domain string `json:"domain"`
	// replicas with all pods bound in the domain, as ordinals and ranges of ordinals, e.g. "100-107,112".
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// former are the replicas whose last domain this was, as ordinals and ranges of ordinals.
	// +optional
	Former string `json:"former,omitempty"`
}

// ReplicaPlacement is the current or last domain of one replica.
type ReplicaPlacement struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// domain is the path of label values from the broadest level down, e.g. "zone-0/block-1/rack-2".
	// +required
	Domain string `json:"domain"`
	// bound is true while all pods of the replica are bound in the domain; otherwise the domain is the replica's last domain.
	// +optional
	Bound bool `json:"bound,omitempty"`
}
