// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// The roles of the pods of one multinode replica.
const (
	RoleLeader = "leader"
	RoleWorker = "worker"
)

// ComponentRole configures one role of the pods of a multinode component.
type ComponentRole struct {
	// Name of the role: leader or worker.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Replicas is the number of the role's pods in one replica of the component: 1 leader, nodeCount-1 workers. Admission sets it if
	// absent, and refuses any other number.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// ProviderOverride configures the object that the workload provider creates for the role.
	// +optional
	ProviderOverride *ProviderOverride `json:"providerOverride,omitempty"`
	// PodTemplate of the role's pods is reserved, and refused.
	// +optional
	PodTemplate *FreeObject `json:"podTemplate,omitempty"`
}

// Role returns the entry of roles with the given name, or nil.
func (in *ComponentSpec) Role(name string) *ComponentRole {
	for i := range in.Roles {
		if r := &in.Roles[i]; r.Name == name {
			return r
		}
	}
	return nil
}

// PodsOfRole returns the number of pods of a role in one replica of a multinode component; 0 for an unknown role.
func (in *ComponentSpec) PodsOfRole(name string) int32 {
	nodes, multinode := in.PodsPerReplica()
	switch {
	case !multinode:
		return 0
	case name == RoleLeader:
		return 1
	case name == RoleWorker:
		return nodes - 1
	}
	return 0
}

// ImplicitRoles reports whether roles means the same as no list: roles is absent, or lists both roles without any setting other than their
// implicit replicas.
func (in *ComponentSpec) ImplicitRoles() bool {
	if in.Roles == nil {
		return true
	}
	for i := range in.Roles {
		r := &in.Roles[i]
		if r.ProviderOverride != nil || r.PodTemplate != nil || r.Replicas != nil && *r.Replicas != in.PodsOfRole(r.Name) {
			return false
		}
	}
	return len(in.Roles) == 2 && in.Role(RoleLeader) != nil && in.Role(RoleWorker) != nil
}
