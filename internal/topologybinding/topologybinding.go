// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topologybinding reads Grove's ClusterTopologyBindings as ClusterTopologies. Users of Dynamo 1.4 or later have Bindings and no
// ClusterTopology.
//
//	ClusterTopologyBinding gb200, annotation trellis.dev/node-selector: pool=gb200    ClusterTopology gb200
//	  levels: block, rack                                                         ->    levels: block, rack
//	  schedulerTopologyBindings: kai-scheduler gb200                                    schedulerTopologyReferences: kai-scheduler gb200
//	                                                                                    nodeSelector: pool: gb200
//
// A ClusterTopology takes precedence over a Binding with the same name. A Binding that Trellis wrote for a ClusterTopology is ignored: it
// has the same levels, and is deleted with the ClusterTopology.
package topologybinding

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// AnnotationNodeSelector on a Binding is like spec.nodeSelector on a ClusterTopology: it selects the nodes with all listed labels. Format:
// "KEY=VALUE,KEY=VALUE".
const AnnotationNodeSelector = "trellis.dev/node-selector"

// MaxKey is the maximum length of a label key in Grove.
const MaxKey = 63

const (
	// maxLevels is the maximum number of levels of a ClusterTopology. Grove sets no maximum.
	maxLevels = 16
	// maxSelector is the maximum number of labels in a ClusterTopology's node selector.
	maxSelector = 16
	// noVersion is the resourceVersion of topologies that are read from Bindings. A client that waits for its own writes compares the
	// resourceVersions of ClusterTopologies, so a topology must not have the resourceVersion of a Binding.
	noVersion = "0"
)

// Ours reports whether Trellis wrote a Binding for a ClusterTopology.
func Ours(b *Binding) bool {
	owner := metav1.GetControllerOf(b)
	return owner != nil && owner.Kind == grovev1alpha1.KindClusterTopology &&
		strings.HasPrefix(owner.APIVersion, grovev1alpha1.GroupVersion.Group+"/")
}

// Read converts a Binding to a ClusterTopology. It returns nil for a Binding that Trellis wrote. The CRD of Bindings allows values that the
// CRD of ClusterTopologies forbids. If a Binding cannot be converted, the error states the reason and the fix.
func Read(b *Binding) (*grovev1alpha1.ClusterTopology, error) {
	if Ours(b) {
		return nil, nil
	}
	if err := problem(b); err != nil {
		return nil, err
	}
	ct := &grovev1alpha1.ClusterTopology{ObjectMeta: *b.ObjectMeta.DeepCopy()}
	ct.SetGroupVersionKind(Kind)
	ct.ResourceVersion, ct.ManagedFields = noVersion, nil
	for _, level := range b.Spec.Levels {
		ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel(level))
	}
	for _, ref := range b.Spec.SchedulerTopologyBindings {
		ct.Spec.SchedulerTopologyReferences = append(ct.Spec.SchedulerTopologyReferences, grovev1alpha1.SchedulerTopologyReference(ref))
	}
	if text := b.Annotations[AnnotationNodeSelector]; text != "" {
		selector, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return nil, fmt.Errorf("metadata.annotations[%s]: %w; write it as KEY=VALUE,KEY=VALUE", AnnotationNodeSelector, err)
		}
		if len(selector) > maxSelector {
			return nil, fmt.Errorf("metadata.annotations[%s]: has %d labels; use at most %d", AnnotationNodeSelector, len(selector), maxSelector)
		}
		ct.Spec.NodeSelector = selector
	}
	return ct, nil
}

// problem returns the reason why the levels of a Binding are invalid for a ClusterTopology. It also checks that domains and keys are
// unique, because otherwise only a webhook of Grove checks this.
func problem(b *Binding) error {
	if n := len(b.Spec.Levels); n == 0 || n > maxLevels {
		return fmt.Errorf("spec.levels: has %d levels; use 1 to %d", n, maxLevels)
	}
	for i, level := range b.Spec.Levels {
		for _, broader := range b.Spec.Levels[:i] {
			switch {
			case broader.Domain == level.Domain:
				return fmt.Errorf("spec.levels[%d].domain: %q is the domain of another level too; give each level its own", i, level.Domain)
			case broader.Key == level.Key:
				return fmt.Errorf("spec.levels[%d].key: %q is the key of another level too; give each level its own", i, level.Key)
			}
		}
	}
	return nil
}

// Merge appends Bindings as ClusterTopologies. It omits Bindings with the name of a ClusterTopology and Bindings that cannot be read.
func Merge(topologies []*grovev1alpha1.ClusterTopology, bindings []*Binding) []*grovev1alpha1.ClusterTopology {
	for _, b := range bindings {
		taken := slices.ContainsFunc(topologies, func(ct *grovev1alpha1.ClusterTopology) bool { return ct.Name == b.Name })
		if ct, err := Read(b); err == nil && ct != nil && !taken {
			topologies = append(topologies, ct)
		}
	}
	return topologies
}

// Differ describes the difference between the levels of a Binding and the levels of the ClusterTopology with the same name; "" if they are
// equal.
func Differ(ct, binding *grovev1alpha1.ClusterTopology) string {
	if slices.Equal(ct.Spec.Levels, binding.Spec.Levels) {
		return ""
	}
	return fmt.Sprintf("ClusterTopologyBinding %q has levels [%s], ClusterTopology %q has [%s]", binding.Name, LevelsText(binding.Spec.Levels),
		ct.Name, LevelsText(ct.Spec.Levels))
}

// LevelsText formats levels as "zone=topology.kubernetes.io/zone > rack=example.com/rack".
func LevelsText(levels []grovev1alpha1.TopologyLevel) string {
	parts := make([]string, 0, len(levels))
	for _, level := range levels {
		parts = append(parts, level.Domain+"="+level.Key)
	}
	return strings.Join(parts, " > ")
}
