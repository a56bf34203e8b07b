// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WorkloadKind is the kind of the objects for which Kueue reserves quota.
var WorkloadKind = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}

// MaxPodSets is the maximum number of podsets in a Workload, according to the CustomResourceDefinition.
const MaxPodSets = 18

// Workload has the fields that Trellis sets and reads.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec   `json:"spec"`
	Status            WorkloadStatus `json:"status,omitzero"`
}

// WorkloadSpec describes the requested quota. Kueue never allows changing the podsets, and allows changing the queue only before the
// Workload has quota.
type WorkloadSpec struct {
	QueueName string   `json:"queueName"`
	PodSets   []PodSet `json:"podSets"`
	// Priority is always set, because Kueue panics without it.
	Priority         int32             `json:"priority"`
	PriorityClassRef *PriorityClassRef `json:"priorityClassRef,omitempty"`
	// Active is false for a Workload that requests no quota; nil is true.
	Active *bool `json:"active,omitempty"`
}

// PodSet is a set of equal pods. An annotation on each pod contains the name of its podset.
type PodSet struct {
	Name     string                 `json:"name"`
	Count    int32                  `json:"count"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// PriorityClassRef names the source of the priority.
type PriorityClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// WorkloadStatus is written by Kueue.
type WorkloadStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Admission  *Admission         `json:"admission,omitempty"`
	// AdmissionChecks have to be Ready before Kueue admits a Workload, in addition to the reserved quota.
	AdmissionChecks []CheckState `json:"admissionChecks,omitempty"`
}

// Admission is the source of the reserved quota: the ClusterQueue, and the flavors of each podset.
type Admission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments,omitempty"`
}

// PodSetAssignment has the fields that Trellis reads: the flavors by resource, and the nodes if Kueue has chosen them too.
type PodSetAssignment struct {
	Name    string            `json:"name"`
	Flavors map[string]string `json:"flavors,omitempty"`

	TopologyAssignment map[string]any `json:"topologyAssignment,omitempty"`
}

// Types of conditions that Kueue sets.
const (
	workloadAdmitted = "Admitted"
	workloadReserved = "QuotaReserved"
	workloadEvicted  = "Evicted"
	workloadFinished = "Finished"

	workloadDeactivationTarget = "DeactivationTarget"
)

// reasonDeactivated is the prefix of the reasons with which Kueue evicts an inactive Workload. If Kueue itself has deactivated the
// Workload, the reason is reasonDeactivatedBy followed by the cause: RequeuingLimitExceeded, AdmissionCheck, MaximumExecutionTimeExceeded.
const (
	reasonDeactivated   = "Deactivated"
	reasonDeactivatedBy = reasonDeactivated + "DueTo"
)
