// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaderWorkerSet has the fields that Trellis sets and reads.
type LeaderWorkerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec has one leader and its workers. Trellis sets replicas to 1.
type Spec struct {
	Replicas             *int32               `json:"replicas,omitempty"`
	StartupPolicy        string               `json:"startupPolicy,omitempty"`
	NetworkConfig        *NetworkConfig       `json:"networkConfig,omitempty"`
	LeaderWorkerTemplate LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
}

// NetworkConfig configures the Service that gives pods their DNS names.
type NetworkConfig struct {
	SubdomainPolicy string `json:"subdomainPolicy"`
}

// LeaderWorkerTemplate has the templates of the pods.
type LeaderWorkerTemplate struct {
	LeaderTemplate *PodTemplate `json:"leaderTemplate,omitempty"`
	WorkerTemplate PodTemplate  `json:"workerTemplate"`
	Size           int32        `json:"size"`
	RestartPolicy  string       `json:"restartPolicy,omitempty"`
}

// PodTemplate is a pod template with only the metadata that the custom resource definition allows.
type PodTemplate struct {
	Metadata PodMetadata    `json:"metadata,omitzero"`
	Spec     corev1.PodSpec `json:"spec"`
}

// PodMetadata is the metadata of a template.
type PodMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is written by LeaderWorkerSet.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	UpdatedReplicas    int32              `json:"updatedReplicas,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}
