// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Made identifies the object that Grove makes for a component: a PodCliqueScalingGroup for a multinode component, otherwise a PodClique.
type Made struct {
	Kind schema.GroupVersionKind
	// Set is the name of the PodCliqueSet, and part is the component's name within the set.
	Set, part string
}

// MadeOf identifies the object that Grove makes for a component.
func MadeOf(g Input, sg *trellisv1alpha1.ScalingGroup) Made {
	n := nameAll(g.Name, g.Groups)
	kind := PodCliqueKind
	if sg.Spec.Multinode {
		kind = PodCliqueScalingGroupKind
	}
	return Made{Kind: kind, Set: n.set, part: n.of(sg)}
}

// UsualName returns the name that Grove usually gives the object.
func (m Made) UsualName() string { return objectName(m.Set, m.part) }

// Is reports whether m identifies the object. Grove chooses object names, so Is compares the PodCliqueSet and the clique names in the
// object's spec.
func (m Made) Is(object *unstructured.Unstructured) bool {
	if object.GetLabels()[LabelPartOf] != m.Set || object.GroupVersionKind() != m.Kind {
		return false
	}
	if m.Kind == PodCliqueKind {
		role, _, _ := unstructured.NestedString(object.Object, "spec", "roleName")
		return role == m.part
	}
	cliques, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "cliqueNames")
	return slices.Contains(cliques, m.part+leaderSuffix)
}
