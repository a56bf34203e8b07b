// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodCliqueSet has the fields that Trellis sets and reads.
type PodCliqueSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodCliqueSetSpec   `json:"spec"`
	Status            PodCliqueSetStatus `json:"status,omitzero"`
}

// PodCliqueSetSpec has one template. Trellis sets replicas to 1.
type PodCliqueSetSpec struct {
	Replicas       int32           `json:"replicas"`
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	Template       Template        `json:"template"`
}

// UpdateStrategy is the way in which Grove replaces pods when their template has changed: RollingRecreate, the default, or OnDelete.
type UpdateStrategy struct {
	Type string `json:"type"`
}

// Template is the template of the entire deployment.
type Template struct {
	Cliques                []Clique               `json:"cliques"`
	CliqueStartupType      string                 `json:"cliqueStartupType,omitempty"`
	PriorityClassName      string                 `json:"priorityClassName,omitempty"`
	HeadlessServiceConfig  *HeadlessServiceConfig `json:"headlessServiceConfig,omitempty"`
	TopologyConstraint     *TopologyConstraint    `json:"topologyConstraint,omitempty"`
	TerminationDelay       *metav1.Duration       `json:"terminationDelay,omitempty"`
	PodCliqueScalingGroups []ScalingGroup         `json:"podCliqueScalingGroups,omitempty"`
}

// HeadlessServiceConfig configures the Service that gives pods their DNS names.
type HeadlessServiceConfig struct {
	PublishNotReadyAddresses bool `json:"publishNotReadyAddresses"`
}

// Clique is a set of equal pods.
type Clique struct {
	Name               string              `json:"name"`
	Labels             map[string]string   `json:"labels,omitempty"`
	Annotations        map[string]string   `json:"annotations,omitempty"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
	Spec               CliqueSpec          `json:"spec"`
}

// CliqueSpec has the number of pods and their spec.
type CliqueSpec struct {
	RoleName     string         `json:"roleName"`
	PodSpec      corev1.PodSpec `json:"podSpec"`
	Replicas     int32          `json:"replicas"`
	MinAvailable *int32         `json:"minAvailable,omitempty"`
}

// ScalingGroup is a component whose replicas consist of several cliques.
type ScalingGroup struct {
	Name               string              `json:"name"`
	CliqueNames        []string            `json:"cliqueNames"`
	Replicas           *int32              `json:"replicas,omitempty"`
	MinAvailable       *int32              `json:"minAvailable,omitempty"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// TopologyConstraint has the fields of all shapes; see Shape.
type TopologyConstraint struct {
	TopologyName string `json:"topologyName,omitempty"`
	PackDomain   string `json:"packDomain,omitempty"`
	Pack         *Pack  `json:"pack,omitempty"`
}

// Pack names the required and the preferred level, which Grove calls domains.
type Pack struct {
	Required  string `json:"required,omitempty"`
	Preferred string `json:"preferred,omitempty"`
}

// PodCliqueSetStatus is written by Grove.
type PodCliqueSetStatus struct {
	ObservedGeneration *int64             `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	LastErrors         []LastError        `json:"lastErrors,omitempty"`
	// UpdateProgress is the progress of the last template change. RollingUpdateProgress is the field's name up to v0.1.0-alpha.8.
	UpdateProgress        *UpdateProgress `json:"updateProgress,omitempty"`
	RollingUpdateProgress *UpdateProgress `json:"rollingUpdateProgress,omitempty"`
}

// UpdateProgress is the progress of an update, which runs until UpdateEndedAt is set.
type UpdateProgress struct {
	UpdateEndedAt *metav1.Time `json:"updateEndedAt,omitempty"`
}

// LastError is an error that Grove reports.
type LastError struct {
	Code        string `json:"code"`
	Description string `json:"description"`
}
