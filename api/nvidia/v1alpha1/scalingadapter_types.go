// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoGraphDeploymentScalingAdapterSpec is the desired number of replicas of one service of a graph.
type DynamoGraphDeploymentScalingAdapterSpec struct {
	// Replicas of the service, 0 to 65536. Written through the scale subresource by kubectl scale, a HorizontalPodAutoscaler, KEDA or
	// the Dynamo planner.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65536
	Replicas int32 `json:"replicas"`
	// DGDRef names the scaled service. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="dgdRef is immutable: an adapter scales one service for good"
	DGDRef ScaledService `json:"dgdRef"`
}

// ScaledService is one service of a DynamoGraphDeployment in the same namespace.
type ScaledService struct {
	// Name of the DynamoGraphDeployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// ServiceName is the key in the deployment's spec.services.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName"`
}

// DynamoGraphDeploymentScalingAdapterStatus is the observed scale of the service, for autoscalers.
type DynamoGraphDeploymentScalingAdapterStatus struct {
	// ObservedGeneration is the generation of the spec this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas that exist, complete or not.
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector selects one pod per replica: the pod itself, or the leader of a multinode replica.
	// +optional
	Selector string `json:"selector,omitempty"`
	// LastScaleTime is when the number of replicas was last changed through this adapter.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`
	// Conditions of the adapter.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types and reasons of an adapter.
const (
	// ConditionActive is True while the adapter determines the service's replicas.
	ConditionActive = "Active"

	ReasonOwnsReplicas    = "OwnsReplicas"
	ReasonReplicasRefused = "ReplicasRefused"
	ReasonNotInUse        = "NotInUse"
)

// DynamoGraphDeploymentScalingAdapter scales one service of a graph. The operator creates an adapter, named <deployment>-<lower-cased
// service>, for every service with scalingAdapter.enabled, and deletes it when enabled is no longer set.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dgdsa,categories=dynamo
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="DGD",type=string,JSONPath=`.spec.dgdRef.name`,description="The DynamoGraphDeployment"
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.dgdRef.serviceName`,description="The service of the graph"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas wanted"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Replicas that exist"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`,description="The service follows the adapter"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoGraphDeploymentScalingAdapter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired number of replicas.
	Spec DynamoGraphDeploymentScalingAdapterSpec `json:"spec"`
	// Status is the observed scale.
	// +optional
	Status DynamoGraphDeploymentScalingAdapterStatus `json:"status,omitempty"`
}

// DynamoGraphDeploymentScalingAdapterList is a list of DynamoGraphDeploymentScalingAdapter.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentScalingAdapterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DynamoGraphDeploymentScalingAdapter `json:"items"`
}
