// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodGroupKind is the kind of a tree of pods that KAI places together.
var PodGroupKind = schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2alpha2", Kind: "PodGroup"}

// PodGroup has the fields that Trellis sets and reads. KAI itself sets markUnschedulable, schedulingBackoff and its own labels and
// annotations.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodGroupSpec   `json:"spec"`
	Status            PodGroupStatus `json:"status,omitzero"`
}

// PodGroupSpec is the root of the tree. It has a minimum number of either members or subgroups.
type PodGroupSpec struct {
	MinMember          *int32              `json:"minMember,omitempty"`
	MinSubGroup        *int32              `json:"minSubGroup,omitempty"`
	Queue              string              `json:"queue,omitempty"`
	PriorityClassName  string              `json:"priorityClassName,omitempty"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
	SubGroups          []SubGroup          `json:"subGroups,omitempty"`
	// StalenessGracePeriod is the time for which a PodGroup may stay below its minimum before KAI evicts the pods. With a negative value,
	// KAI never evicts them.
	StalenessGracePeriod string `json:"stalenessGracePeriod,omitempty"`
}

// SubGroup is a node of the tree. A leaf has a minimum number of pods, any other node a minimum number of children.
type SubGroup struct {
	Name               string              `json:"name"`
	Parent             string              `json:"parent,omitempty"`
	MinMember          *int32              `json:"minMember,omitempty"`
	MinSubGroup        *int32              `json:"minSubGroup,omitempty"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// TopologyConstraint refers to levels of a Topology by their node label keys.
type TopologyConstraint struct {
	Topology               string `json:"topology"`
	RequiredTopologyLevel  string `json:"requiredTopologyLevel,omitempty"`
	PreferredTopologyLevel string `json:"preferredTopologyLevel,omitempty"`
}

// PodGroupStatus is written by KAI.
type PodGroupStatus struct {
	SchedulingConditions []SchedulingCondition `json:"schedulingConditions,omitempty"`
}

// SchedulingCondition is KAI's reason for placing no pods of the PodGroup in a node pool.
type SchedulingCondition struct {
	Type               string      `json:"type"`
	NodePool           string      `json:"nodePool,omitempty"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
	Reasons            []Reason    `json:"reasons,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
}

// Reason is one of the reasons in a condition.
type Reason struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
