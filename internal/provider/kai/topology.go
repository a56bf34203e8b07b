// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// TopologyKind is the kind with which KAI describes the cluster's hierarchy. It is cluster-scoped and has no status.
var TopologyKind = schema.GroupVersionKind{Group: "kai.scheduler", Version: "v1alpha1", Kind: "Topology"}

// Topology lists node label keys, the broadest first.
type Topology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TopologySpec `json:"spec"`
}

// TopologySpec is immutable.
type TopologySpec struct {
	Levels []TopologyLevel `json:"levels"`
}

// TopologyLevel is one level.
type TopologyLevel struct {
	NodeLabel string `json:"nodeLabel"`
}

// maxKey is the maximum length of a label key in KAI.
const maxKey = 316

// Reference returns the name of the KAI Topology for a ClusterTopology. By default, both objects have the same name, and Trellis manages
// the Topology. If the ClusterTopology names a Topology explicitly, the author of the ClusterTopology manages this Topology.
func Reference(ct *grovev1alpha1.ClusterTopology) (name string, managed bool) {
	for _, ref := range ct.Spec.SchedulerTopologyReferences {
		if ref.SchedulerName == SchedulerName {
			return ref.TopologyReference, false
		}
	}
	return ct.Name, true
}

// RenderTopology returns the Topology for a ClusterTopology, or an error with the reason why KAI would refuse the Topology.
func RenderTopology(ct *grovev1alpha1.ClusterTopology) (*Topology, error) {
	t := &Topology{
		TypeMeta: metav1.TypeMeta{APIVersion: TopologyKind.GroupVersion().String(), Kind: TopologyKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            ct.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ct, grovev1alpha1.GroupVersion.WithKind(ct.Source()))},
		},
	}
	for i, level := range ct.Spec.Levels {
		switch {
		case level.Key == corev1.LabelHostname && i < len(ct.Spec.Levels)-1:
			return nil, fmt.Errorf("KAI takes %s as the narrowest level only, and in %s %q it is level %d of %d (%q); put it last",
				corev1.LabelHostname, ct.Source(), ct.Name, i+1, len(ct.Spec.Levels), level.Domain)
		case len(level.Key) > maxKey:
			return nil, fmt.Errorf("KAI takes label keys of at most %d characters, and the key of level %q of %s %q has %d; use a "+
				"shorter label",
				maxKey, level.Domain, ct.Source(), ct.Name, len(level.Key))
		}
		t.Spec.Levels = append(t.Spec.Levels, TopologyLevel{NodeLabel: level.Key})
	}
	return t, nil
}

// TopologyStep is the action that brings KAI's Topology in sync with a ClusterTopology.
type TopologyStep string

// Steps. The levels of a Topology are immutable, so a change of the levels needs a new object. KAI does not touch running pods.
const (
	InSync  TopologyStep = "InSync"
	Create  TopologyStep = "Create"
	Replace TopologyStep = "Replace"
	// Drifted: the Topology is missing or has other levels, and Trellis does not own it. Trellis changes nothing.
	Drifted TopologyStep = "Drifted"
)

// CompareTopology returns the step that brings have in sync with the ClusterTopology, and the reason for the step. have is the existing
// Topology with the name that [Reference] returns; nil for none.
func CompareTopology(ct *grovev1alpha1.ClusterTopology, have *Topology) (step TopologyStep, why string) {
	name, managed := Reference(ct)
	if have == nil {
		if managed {
			return Create, fmt.Sprintf("KAI has no Topology %q", name)
		}
		return Drifted, fmt.Sprintf("KAI has no Topology %q, which %s of %s %q names; create it, or remove the reference and "+
			"Trellis keeps one",
			name, referencesOf(ct), ct.Source(), ct.Name)
	}
	wanted, existing := keysOf(ct), have.keys()
	if slices.Equal(wanted, existing) {
		return InSync, ""
	}
	difference := fmt.Sprintf("Topology %q has levels [%s], %s %q has [%s]", name, strings.Join(existing, " > "), ct.Source(), ct.Name,
		strings.Join(wanted, " > "))
	if managed && metav1.IsControlledBy(have, ct) {
		return Replace, difference
	}
	return Drifted, difference + "; it was not created by Trellis and is left unchanged: correct it, or name another in " + referencesOf(ct)
}

// referencesOf returns the name of the topology field that refers to topology objects of other schedulers.
func referencesOf(ct *grovev1alpha1.ClusterTopology) string {
	if ct.FromBinding() {
		return "schedulerTopologyBindings"
	}
	return "schedulerTopologyReferences"
}

func keysOf(ct *grovev1alpha1.ClusterTopology) []string {
	keys := make([]string, 0, len(ct.Spec.Levels))
	for _, level := range ct.Spec.Levels {
		keys = append(keys, level.Key)
	}
	return keys
}

func (t *Topology) keys() []string {
	keys := make([]string, 0, len(t.Spec.Levels))
	for _, level := range t.Spec.Levels {
		keys = append(keys, level.NodeLabel)
	}
	return keys
}
