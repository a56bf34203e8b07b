// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nvlink

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of ComputeDomains.
var GroupVersion = schema.GroupVersion{Group: "resource.nvidia.com", Version: "v1beta1"}

// Kind of ComputeDomains.
const Kind = "ComputeDomain"

// ComputeDomain has the fields of NVIDIA's ComputeDomain that Trellis reads and writes. Its spec is immutable.
type ComputeDomain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ComputeDomainSpec `json:"spec"`
	// Status is written by the driver.
	Status map[string]any `json:"status,omitempty"`
}

// ComputeDomainSpec describes the requested domain.
type ComputeDomainSpec struct {
	// NumNodes is the number of nodes that must join; 0: as many as the pods need.
	NumNodes int     `json:"numNodes"`
	Channel  Channel `json:"channel"`
}

// Channel describes how pods join the domain.
type Channel struct {
	// AllocationMode is Single, which is the default, or All.
	AllocationMode string `json:"allocationMode,omitempty"`
	// ResourceClaimTemplate is the template that the driver creates for the pods.
	ResourceClaimTemplate NamedTemplate `json:"resourceClaimTemplate"`
}

// NamedTemplate names a ResourceClaimTemplate in the same namespace.
type NamedTemplate struct {
	Name string `json:"name"`
}

// Template returns the name of the ResourceClaimTemplate with which pods join the domain.
func (d *ComputeDomain) Template() string { return d.Spec.Channel.ResourceClaimTemplate.Name }

// DeepCopyObject implements runtime.Object.
func (d *ComputeDomain) DeepCopyObject() runtime.Object {
	out := *d
	out.ObjectMeta = *d.ObjectMeta.DeepCopy()
	out.Status = runtime.DeepCopyJSON(d.Status)
	return &out
}

// ComputeDomainList is a list of ComputeDomains.
type ComputeDomainList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ComputeDomain `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *ComputeDomainList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]ComputeDomain, 0, len(l.Items))
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*ComputeDomain))
	}
	return &out
}

// AddToScheme registers the kind in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ComputeDomain{}, &ComputeDomainList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// OfTemplate returns a ComputeDomain for a claim template whose ComputeDomain is otherwise unknown. The result gets the template's name, as
// in the driver's examples.
func OfTemplate(template string) ComputeDomain {
	out := ComputeDomain{}
	out.Name, out.Spec.Channel.ResourceClaimTemplate.Name = template, template
	return out
}
