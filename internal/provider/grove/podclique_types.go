// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodClique is the object that Grove makes from a clique. For a single-node component, it is the only object. Trellis reads and scales it.
type PodClique struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Replicas        `json:"spec"`
	Status            PodCliqueStatus `json:"status,omitzero"`
}

// Replicas is the wanted number of replicas.
type Replicas struct {
	Replicas int32 `json:"replicas"`
}

// PodCliqueStatus counts pods.
type PodCliqueStatus struct {
	ObservedGeneration    *int64             `json:"observedGeneration,omitempty"`
	Replicas              int32              `json:"replicas,omitempty"`
	ReadyReplicas         int32              `json:"readyReplicas"`
	ScheduledReplicas     int32              `json:"scheduledReplicas"`
	ScheduleGatedReplicas int32              `json:"scheduleGatedReplicas"`
	UpdatedReplicas       int32              `json:"updatedReplicas"`
	Conditions            []metav1.Condition `json:"conditions,omitempty"`
}
