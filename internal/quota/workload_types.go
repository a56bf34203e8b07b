// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WorkloadKind is what Kueue gives quota to.
var WorkloadKind = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}

// MaxPodSets is how many podsets the definition of a Workload allows.
const MaxPodSets = 18

// Workload has what Trellis sets and reads.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec   `json:"spec"`
	Status            WorkloadStatus `json:"status,omitzero"`
}

// WorkloadSpec is what quota is asked for. Kueue allows no change of the podsets, and of the queue only before there is quota.
type WorkloadSpec struct {
	QueueName string   `json:"queueName"`
	PodSets   []PodSet `json:"podSets"`
	// Priority is always set: Kueue ends with a panic where it is not.
	Priority         int32             `json:"priority"`
	PriorityClassRef *PriorityClassRef `json:"priorityClassRef,omitempty"`
	// Active is false on a Workload that gets no quota; nil is true.
	Active *bool `json:"active,omitempty"`
}

// PodSet is pods that are alike. Its name is the role that pods name in an annotation.
type PodSet struct {
	Name     string                 `json:"name"`
	Count    int32                  `json:"count"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// PriorityClassRef is where the priority comes from.
type PriorityClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// WorkloadStatus is Kueue's.
type WorkloadStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Admission  *Admission         `json:"admission,omitempty"`
	// AdmissionChecks are what has to be Ready, in addition to quota, before a Workload is admitted.
	AdmissionChecks []CheckState `json:"admissionChecks,omitempty"`
}

// Admission is where the quota is from.
type Admission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments,omitempty"`
}

// PodSetAssignment has what Trellis looks at: the flavors by resource, and whether Kueue chose the nodes, too.
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

// reasonDeactivated is how the reasons begin for which Kueue evicts a Workload that is not active. After reasonDeactivatedBy they have the
// cause for which Kueue itself has deactivated it: RequeuingLimitExceeded, AdmissionCheck, MaximumExecutionTimeExceeded.
const (
	reasonDeactivated   = "Deactivated"
	reasonDeactivatedBy = reasonDeactivated + "DueTo"
)
