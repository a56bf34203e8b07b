// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodClique is what Grove makes of a clique, and all there is of a single-node component. Trellis reads it, and scales it.
type PodClique struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Replicas        `json:"spec"`
	Status            PodCliqueStatus `json:"status,omitzero"`
}

// Replicas wanted.
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
