// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// bindingDomain is the format that Grove requires for domains.
var bindingDomain = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// RenderBinding returns the ClusterTopologyBinding for a ClusterTopology, or an error with the reason why Grove would refuse the binding.
// If Trellis maintains KAI's Topology, kaiTopology is the Topology's name, and the binding refers to it. Without this reference, Grove
// would try to create a Topology with the binding's name, and fail because the name exists. If the referenced Topology is missing, KAI
// places no constrained gang.
func RenderBinding(ct *grovev1alpha1.ClusterTopology, kaiTopology string) (*topologybinding.Binding, error) {
	b := &topologybinding.Binding{
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
		case len(level.Key) > topologybinding.MaxKey:
			return nil, fmt.Errorf("level %q of ClusterTopology %q: Grove takes label keys of at most %d characters, and this one has %d; use a "+
				"shorter label",
				level.Domain, ct.Name, topologybinding.MaxKey, len(level.Key))
		}
		b.Spec.Levels = append(b.Spec.Levels, topologybinding.Level(level))
	}
	for _, ref := range ct.Spec.SchedulerTopologyReferences {
		b.Spec.SchedulerTopologyBindings = append(b.Spec.SchedulerTopologyBindings, topologybinding.SchedulerBinding(ref))
	}
	named := slices.ContainsFunc(b.Spec.SchedulerTopologyBindings, func(s topologybinding.SchedulerBinding) bool {
		return s.SchedulerName == kai.SchedulerName
	})
	if kaiTopology != "" && !named {
		b.Spec.SchedulerTopologyBindings = append(b.Spec.SchedulerTopologyBindings, topologybinding.SchedulerBinding{
			SchedulerName: kai.SchedulerName, TopologyReference: kaiTopology,
		})
	}
	return b, nil
}

// BindingDrift describes the difference between a ClusterTopology and a binding of the same name that Trellis did not make. It returns ""
// if Trellis made the binding, or if the levels are equal. Trellis does not change a binding that it did not make.
func BindingDrift(ct *grovev1alpha1.ClusterTopology, have *topologybinding.Binding) string {
	if have == nil || metav1.IsControlledBy(have, ct) {
		return ""
	}
	existing := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: have.Name}}
	for _, level := range have.Spec.Levels {
		existing.Spec.Levels = append(existing.Spec.Levels, grovev1alpha1.TopologyLevel(level))
	}
	differ := topologybinding.Differ(ct, existing)
	if differ == "" {
		return ""
	}
	return differ + "; it was not created by Trellis and is left unchanged: correct it, or delete it and Trellis makes one"
}
