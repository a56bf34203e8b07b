// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodCliqueScalingGroup is the object that Grove makes for a multinode component. Trellis reads and scales it.
type PodCliqueScalingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Replicas                    `json:"spec"`
	Status            PodCliqueScalingGroupStatus `json:"status,omitzero"`
}

// PodCliqueScalingGroupStatus counts replicas.
type PodCliqueScalingGroupStatus struct {
	ObservedGeneration *int64             `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas,omitempty"`
	AvailableReplicas  int32              `json:"availableReplicas"`
	ScheduledReplicas  int32              `json:"scheduledReplicas"`
	UpdatedReplicas    int32              `json:"updatedReplicas"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}
