// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
)

// ClusterTopologyBinding is Grove's own description of the hierarchy since it no longer uses ClusterTopology.
type ClusterTopologyBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BindingSpec   `json:"spec"`
	Status            BindingStatus `json:"status,omitzero"`
}

// BindingSpec may change at any time.
type BindingSpec struct {
	Levels                    []BindingLevel             `json:"levels"`
	SchedulerTopologyBindings []SchedulerTopologyBinding `json:"schedulerTopologyBindings,omitempty"`
}

// BindingLevel is one level, the broadest first.
type BindingLevel struct {
	Domain string `json:"domain"`
	Key    string `json:"key"`
}

// SchedulerTopologyBinding names another scheduler's topology, which Grove then only compares.
type SchedulerTopologyBinding struct {
	SchedulerName     string `json:"schedulerName"`
	TopologyReference string `json:"topologyReference"`
}

// BindingStatus is Grove's.
type BindingStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// maxBindingKey and bindingDomain are what Grove takes.
const maxBindingKey = 63

var bindingDomain = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// RenderBinding returns the binding of a ClusterTopology, or why Grove would not take it. kaiTopology is the name of KAI's Topology where
// Trellis keeps one: without the reference Grove would make one of the binding's name itself, and fail over the one that is there. With a
// reference to one that is not there, KAI places no constrained gang.
func RenderBinding(ct *grovev1alpha1.ClusterTopology, kaiTopology string) (*ClusterTopologyBinding, error) {
	b := &ClusterTopologyBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: ClusterTopologyBindingKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name:            ct.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ct, grovev1alpha1.GroupVersion.WithKind("ClusterTopology"))},
		},
	}
	for _, level := range ct.Spec.Levels {
		switch {
		case !bindingDomain.MatchString(level.Domain):
			return nil, fmt.Errorf("level %q of ClusterTopology %q: Grove takes domains that begin with a letter; rename the level", level.Domain,
				ct.Name)
		case len(level.Key) > maxBindingKey:
			return nil, fmt.Errorf("level %q of ClusterTopology %q: Grove takes label keys of at most %d characters, and this one has %d; use a "+
				"shorter label",
				level.Domain, ct.Name, maxBindingKey, len(level.Key))
		}
		b.Spec.Levels = append(b.Spec.Levels, BindingLevel(level))
	}
	for _, ref := range ct.Spec.SchedulerTopologyReferences {
		b.Spec.SchedulerTopologyBindings = append(b.Spec.SchedulerTopologyBindings, SchedulerTopologyBinding(ref))
	}
	named := slices.ContainsFunc(b.Spec.SchedulerTopologyBindings, func(s SchedulerTopologyBinding) bool {
		return s.SchedulerName == kai.SchedulerName
	})
	if kaiTopology != "" && !named {
		b.Spec.SchedulerTopologyBindings = append(b.Spec.SchedulerTopologyBindings, SchedulerTopologyBinding{kai.SchedulerName, kaiTopology})
	}
	return b, nil
}

// BindingDrift describes how a binding that Trellis did not make differs from the ClusterTopology of its name; "" when Trellis made it, or
// when both say the same. Such a binding is left alone.
func BindingDrift(ct *grovev1alpha1.ClusterTopology, have *ClusterTopologyBinding) string {
	if have == nil || metav1.IsControlledBy(have, ct) {
		return ""
	}
	existing, wanted := make([]BindingLevel, 0, len(have.Spec.Levels)), make([]BindingLevel, 0, len(ct.Spec.Levels))
	existing = append(existing, have.Spec.Levels...)
	for _, level := range ct.Spec.Levels {
		wanted = append(wanted, BindingLevel(level))
	}
	if slices.Equal(existing, wanted) {
		return ""
	}
	return fmt.Sprintf("ClusterTopologyBinding %q has levels [%s], ClusterTopology %q has [%s]; it was not created by Trellis and is left "+
		"unchanged: correct it, or delete it and Trellis makes one",
		have.Name, levelsText(existing), ct.Name, levelsText(wanted))
}

func levelsText(levels []BindingLevel) string {
	parts := make([]string, 0, len(levels))
	for _, level := range levels {
		parts = append(parts, level.Domain+"="+level.Key)
	}
	return strings.Join(parts, " > ")
}
