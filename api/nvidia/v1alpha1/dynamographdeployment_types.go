// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoGraphDeploymentSpec is an inference graph: its services and how tightly they must sit together.
type DynamoGraphDeploymentSpec struct {
	// Annotations copied to every object made for the graph. A service's own win.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels copied to every object made for the graph. A service's own win.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// PVCs that services may mount by name.
	// +optional
	PVCs []PVC `json:"pvcs,omitempty"`
	// Services of the graph by name. The set of services is immutable.
	Services map[string]*ServiceSpec `json:"services"`
	// Envs are merged under each service's own envs.
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`
	// BackendFramework of the workers; told from their command line when unset. Immutable.
	// +optional
	BackendFramework BackendFramework `json:"backendFramework,omitempty"`
	// Restart asks for a restart of the graph's services each time its id changes.
	// +optional
	Restart *Restart `json:"restart,omitempty"`
	// TopologyConstraint names the ClusterTopology and how tightly the whole graph is packed. Immutable.
	// +optional
	TopologyConstraint *SpecTopologyConstraint `json:"topologyConstraint,omitempty"`
	// PriorityClassName of every pod that does not name one itself.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ProviderOverride carries settings for another operator's workload provider.
	// +optional
	ProviderOverride *FreeObject `json:"providerOverride,omitempty"`
	// Experimental settings of the graph.
	// +optional
	Experimental *FreeObject `json:"experimental,omitempty"`
}

// BackendFramework is the inference engine of the workers.
type BackendFramework string

// The frameworks whose multinode launch is known.
const (
	BackendFrameworkVLLM   BackendFramework = "vllm"
	BackendFrameworkSGLang BackendFramework = "sglang"
	BackendFrameworkTRTLLM BackendFramework = "trtllm"
)

// PVC is a PersistentVolumeClaim that services mount by name.
type PVC struct {
	// Name of the claim.
	Name *string `json:"name"`
	// Create the claim, owned by the graph. Otherwise it must exist.
	// +optional
	Create *bool `json:"create,omitempty"`
	// StorageClass of a created claim.
	// +optional
	StorageClass string `json:"storageClass,omitempty"`
	// Size of a created claim.
	// +optional
	Size resource.Quantity `json:"size,omitempty"`
	// VolumeAccessMode of a created claim.
	// +optional
	VolumeAccessMode corev1.PersistentVolumeAccessMode `json:"volumeAccessMode,omitempty"`
}

// RestartStrategyType is the order in which services restart.
type RestartStrategyType string

// The restart strategies.
const (
	RestartStrategySequential RestartStrategyType = "Sequential"
	RestartStrategyParallel   RestartStrategyType = "Parallel"
)

// Restart asks for one restart of the services per new id.
type Restart struct {
	// ID of the request. A new value starts a new restart.
	ID string `json:"id"`
	// Strategy of the restart.
	// +optional
	Strategy *RestartStrategy `json:"strategy,omitempty"`
}

// RestartStrategy is how services restart.
type RestartStrategy struct {
	// Type is Sequential (default) or Parallel.
	// +optional
	Type RestartStrategyType `json:"type,omitempty"`
	// Order of a sequential restart: every service once. Alphabetical when empty.
	// +optional
	Order []string `json:"order,omitempty"`
}

// SpecTopologyConstraint is the deployment-level constraint.
type SpecTopologyConstraint struct {
	// TopologyProfile is the name of the ClusterTopology that defines the levels.
	TopologyProfile string `json:"topologyProfile"`
	// PackDomain is the level inside one domain of which all pods of the graph must sit.
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a narrower level tried first for the whole graph.
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
}

// ServiceTopologyConstraint is a service's own constraint, equal to or narrower than the deployment's.
type ServiceTopologyConstraint struct {
	// TopologyProfile belongs at spec.topologyConstraint; it is declared here only so that it can be refused by name.
	// +optional
	TopologyProfile string `json:"topologyProfile,omitempty"`
	// PackDomain is the level inside one domain of which each replica of a multinode service, or all replicas of another, must sit.
	// +optional
	PackDomain string `json:"packDomain,omitempty"`
	// PreferredPackDomain is a narrower level tried first.
	// +optional
	PreferredPackDomain string `json:"preferredPackDomain,omitempty"`
}

// DynamoGraphDeployment is an inference graph: frontends, prefill and decode workers, some of them spanning several nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=dgd,categories=dynamo
// +kubebuilder:subresource:status
type DynamoGraphDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DynamoGraphDeploymentSpec `json:"spec"`
	// +optional
	Status DynamoGraphDeploymentStatus `json:"status,omitempty"`
}

// DynamoGraphDeploymentList is a list of DynamoGraphDeployment.
//
// +kubebuilder:object:root=true
type DynamoGraphDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DynamoGraphDeployment `json:"items"`
}
