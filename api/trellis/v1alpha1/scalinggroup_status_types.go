// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ScalingGroupStatus counts replicas; pods counts pods.
type ScalingGroupStatus struct {
	// observedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas that exist, complete or not.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// pods that exist and neither terminate nor have ended. Absent while there is none, and under a provider that makes the pods itself.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// selector selects the pods of the group, as a label selector in its string form.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector string `json:"selector,omitempty"`
	// updatedReplicas run the current revision, whole.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// scheduledReplicas have every pod bound to a node.
	// +optional
	ScheduledReplicas int32 `json:"scheduledReplicas,omitempty"`
	// readyReplicas have every pod Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// availableReplicas are Ready replicas that are not terminating.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// outdatedReplicas that exist run an older revision, or were made before the last restart that was asked for.
	// +optional
	OutdatedReplicas int32 `json:"outdatedReplicas,omitempty"`
	// updatedAvailableReplicas are the available replicas of the current revision.
	// +optional
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// terminatingReplicas are the outdated replicas of which only terminating pods are left.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas,omitempty"`
	// generations that outdated replicas of workers are of, at most 8, those with the most available replicas.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	// +listType=map
	// +listMapKey=name
	Generations []GenerationCount `json:"generations,omitempty"`
	// progress of the update that runs; absent while none does.
	// +optional
	Progress *RolloutProgress `json:"progress,omitempty"`
	// revision that was last rolled out completely; another one than the spec's while an update runs.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Revision string `json:"revision,omitempty"`
	// begun was set by earlier releases when the first replicas were bound. Nothing reads it.
	//
	// Deprecated: the GraphPlacement records which gangs are bound.
	// +optional
	Begun bool `json:"begun,omitempty"`
	// restart that was last rolled out completely, by a provider that makes the pods itself. Pods of Trellis' own carry it themselves.
	// +optional
	Restart string `json:"restart,omitempty"`
	// placements is the last domain of each replica, as far as 128 KiB hold them, the lowest ordinals first; FurtherPlacements has the
	// others. A replica that is recreated tries it first; it never has to.
	// +optional
	// +listType=map
	// +listMapKey=replica
	Placements []ReplicaPlacement `json:"placements,omitempty"`
	// furtherPlacements are the last domains of the replicas that Placements has no space for. Where 256 KiB do not hold them, their paths
	// end at a broader level, and the condition PlacementsComplete is False.
	// +optional
	// +listType=atomic
	FurtherPlacements []DomainPlacements `json:"furtherPlacements,omitempty"`
	// failedReplicas are the replicas of which pods ended, until they have been Ready for five minutes: the delay before each is recreated
	// doubles with its failures.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	// +listType=map
	// +listMapKey=replica
	FailedReplicas []FailedReplica `json:"failedReplicas,omitempty"`
	// moves are the replicas that are to leave their nodes, at most 256. Others wait until it is their turn.
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

// MaxGenerations is how many outdated generations a status lists.
const MaxGenerations = 8

// GenerationCount counts the outdated replicas of one generation of workers.
type GenerationCount struct {
	// name of the generation; empty for workers without one.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// replicas that exist, complete or not.
	// +required
	Replicas int32 `json:"replicas"`
	// availableReplicas have every pod Ready.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`
}

// RolloutProgress is when an update last came further.
type RolloutProgress struct {
	// revision that is rolled out.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// availableReplicas of the revision, the most there were so far.
	// +required
	AvailableReplicas int32 `json:"availableReplicas"`
	// paused means that the update does not proceed.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// inPlace means that the queue of Kueue had no quota for a surplus replica: the rest of the update replaces one replica at a time, within
	// its quota.
	// +optional
	InPlace bool `json:"inPlace,omitempty"`
	// time at which it began, was resumed, or had so many available replicas for the first time.
	// +required
	Time metav1.Time `json:"time"`
}

// MaxMoves is how many moves a status lists.
const MaxMoves = 256

// ReplicaMove is a replica that is to leave its nodes.
type ReplicaMove struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// why the replica is to leave: its node is drained or removed, the eviction of a pod was requested, or a place for others is freed.
	// +kubebuilder:validation:MaxLength=512
	// +required
	Why string `json:"why"`
	// since is when the operator found that the replica is to leave.
	// +required
	Since metav1.Time `json:"since"`
	// inPlaceAt is when the replica goes without a successor. One that only frees a place for others never does.
	// +required
	InPlaceAt metav1.Time `json:"inPlaceAt"`
	// inPlace means that this time has passed, or that there is no quota for a successor.
	// +optional
	InPlace bool `json:"inPlace,omitempty"`
}

// FailedReplica is a replica of which a pod ended.
type FailedReplica struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// failures in succession, 1 or more.
	// +required
	Failures int32 `json:"failures"`
	// reason names the pod that ended last, and what it ended for.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Reason string `json:"reason"`
	// newestPod is when the newest pod of the failed replica was created. A pod created until then is no further failure.
	// +required
	NewestPod metav1.Time `json:"newestPod"`
	// retryAt is when the replica may be recreated.
	// +required
	RetryAt metav1.Time `json:"retryAt"`
	// revision of the group at that time. With another one the failures are forgotten.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Revision string `json:"revision"`
	// restart is the ID of the last restart at that time. With another one the failures are forgotten.
	// +optional
	Restart string `json:"restart,omitempty"`
	// hosts whose kubelets rejected pods of the replica, the one that did so most often first. From the second time on a host comes last for
	// the replica, and the replica does not return to its former domain first.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	// +listType=map
	// +listMapKey=name
	Hosts []RejectingHost `json:"hosts,omitempty"`
}

// RejectingHost is a node whose kubelet rejected pods of a replica: they ended before any of their containers ran.
type RejectingHost struct {
	// name of the node.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// rejections of the replica's pods, 1 or more; several at once count as one.
	// +required
	Rejections int32 `json:"rejections"`
	// reason that the kubelet gave last, such as UnexpectedAdmissionError.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
}

// DomainPlacements are the replicas that sit, or last sat, in one domain.
type DomainPlacements struct {
	// domain is the path of label values from the broadest level down, e.g. "zone-0/block-1/rack-2".
	// +required
	Domain string `json:"domain"`
	// replicas of which all pods are bound there, as ordinals and ranges of them, e.g. "100-107,112".
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// former are the replicas that last sat there, in the same form.
	// +optional
	Former string `json:"former,omitempty"`
}

// ReplicaPlacement is where one replica sits, or last sat.
type ReplicaPlacement struct {
	// replica is the ordinal.
	// +required
	Replica int32 `json:"replica"`
	// domain is the path of label values from the broadest level down, e.g. "zone-0/block-1/rack-2".
	// +required
	Domain string `json:"domain"`
	// bound is true while all pods of the replica are bound there; otherwise this is where it last sat.
	// +optional
	Bound bool `json:"bound,omitempty"`
}
