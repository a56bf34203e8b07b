// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologybinding

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// Kind is the kind of Bindings.
var Kind = grovev1alpha1.GroupVersion.WithKind(grovev1alpha1.KindClusterTopologyBinding)

// Binding is Grove's ClusterTopologyBinding. It describes the network hierarchy in Grove since v0.1.0-alpha.9, and in Dynamo since 1.4.
type Binding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Spec is the spec of a Binding; it may change at any time.
type Spec struct {
	Levels                    []Level            `json:"levels"`
	SchedulerTopologyBindings []SchedulerBinding `json:"schedulerTopologyBindings,omitempty"`
}

// Level is one level. Levels are listed from the broadest to the narrowest.
type Level struct {
	Domain string `json:"domain"`
	Key    string `json:"key"`
}

// SchedulerBinding names the topology object of another scheduler. Grove then only compares this object with the Binding.
type SchedulerBinding struct {
	SchedulerName     string `json:"schedulerName"`
	TopologyReference string `json:"topologyReference"`
}

// Status is the status of a Binding, which Grove writes.
type Status struct {
	ObservedGeneration        int64              `json:"observedGeneration,omitempty"`
	Conditions                []metav1.Condition `json:"conditions,omitempty"`
	SchedulerTopologyStatuses []any              `json:"schedulerTopologyStatuses,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (b *Binding) DeepCopyObject() runtime.Object {
	out := *b
	out.ObjectMeta = *b.ObjectMeta.DeepCopy()
	out.Spec.Levels = slices.Clone(b.Spec.Levels)
	out.Spec.SchedulerTopologyBindings = slices.Clone(b.Spec.SchedulerTopologyBindings)
	out.Status.Conditions = slices.Clone(b.Status.Conditions)
	out.Status.SchedulerTopologyStatuses, _ = runtime.DeepCopyJSONValue(b.Status.SchedulerTopologyStatuses).([]any)
	return &out
}

// BindingList is a list of Bindings.
type BindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Binding `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *BindingList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]Binding, 0, len(l.Items))
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Binding))
	}
	return &out
}

// AddToScheme registers the kind in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(Kind, &Binding{})
	s.AddKnownTypeWithName(Kind.GroupVersion().WithKind(Kind.Kind+"List"), &BindingList{})
	metav1.AddToGroupVersion(s, Kind.GroupVersion())
	return nil
}
