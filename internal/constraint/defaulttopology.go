// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// AnnotationDefault is "true" on each default topology. A multinode component without any constraint prefers the narrowest level of a
// default topology.
const AnnotationDefault = "trellis.dev/is-default-topology"

// Defaults returns the topologies that are annotated as default, oldest first. [Counting] selects the topologies that are used.
func Defaults(topologies []grovev1alpha1.ClusterTopology) []*grovev1alpha1.ClusterTopology {
	var out []*grovev1alpha1.ClusterTopology
	for i := range topologies {
		if ct := &topologies[i]; ct.Annotations[AnnotationDefault] == "true" && ct.DeletionTimestamp == nil {
			out = append(out, ct)
		}
	}
	slices.SortFunc(out, func(a, b *grovev1alpha1.ClusterTopology) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Counting returns the default topologies that are used. Of several default topologies with the same node selector, it returns the oldest.
func Counting(defaults []*grovev1alpha1.ClusterTopology) []*grovev1alpha1.ClusterTopology {
	var out []*grovev1alpha1.ClusterTopology
	for _, ct := range defaults {
		if Elder(ct, defaults) == nil {
			out = append(out, ct)
		}
	}
	return out
}

// Elder returns the older default topology with the same node selector, which is used instead of ct; nil when ct is used.
func Elder(ct *grovev1alpha1.ClusterTopology, defaults []*grovev1alpha1.ClusterTopology) *grovev1alpha1.ClusterTopology {
	for _, d := range defaults { // sorted, the oldest first
		if d.Name == ct.Name {
			return nil
		}
		if maps.Equal(d.Spec.NodeSelector, ct.Spec.NodeSelector) {
			return d
		}
	}
	return nil
}

// Undecided is a multinode component for which several default topologies are equally suitable. It uses none of them.
type Undecided struct {
	Component string
	// Topologies are the names of these topologies, sorted.
	Topologies []string
}

// followDefaults assigns each multinode component the default topology of the nodes that the component's pods can use. If all multinode
// components get the same topology, the other components get this topology too, without packing.
func followDefaults(dgd *nvidiav1beta1.DynamoGraphDeployment, s Sources, out map[string]*trellisv1alpha1.ResolvedTopology) (
	undecided []Undecided) {
	candidates := bases(s.Defaults)
	chosen := map[string]*trellisv1alpha1.ResolvedTopology{}
	open := 0
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if _, multinode := c.PodsPerReplica(); !multinode {
			continue
		}
		t, several := defaultOf(c, candidates, s.Nodes)
		if len(several) > 0 {
			undecided = append(undecided, Undecided{c.Name, several})
		}
		if t == nil {
			open++
			continue
		}
		chosen[t.ClusterTopology] = t
		out[c.Name] = automatic(t, c)
	}
	if open > 0 || len(chosen) != 1 {
		return undecided
	}
	for _, t := range chosen {
		for i := range dgd.Spec.Components {
			if c := &dgd.Spec.Components[i]; out[c.Name] == nil {
				out[c.Name] = automatic(t, c)
			}
		}
	}
	return undecided
}

// followSiblings returns the default topology for a component without a frozen constraint. It chooses among the frozen topologies of the
// component's siblings and the current defaults.
func followSiblings(c *nvidiav1beta1.ComponentSpec, s Sources) *trellisv1alpha1.ResolvedTopology {
	var candidates []*trellisv1alpha1.ResolvedTopology
	add := func(t *trellisv1alpha1.ResolvedTopology) {
		same := func(o *trellisv1alpha1.ResolvedTopology) bool { return o.ClusterTopology == t.ClusterTopology }
		if t != nil && !slices.ContainsFunc(candidates, same) {
			candidates = append(candidates, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Frozen)) {
		add(s.Frozen[name])
	}
	siblings := len(candidates)
	for _, t := range bases(s.Defaults) {
		add(t)
	}
	if _, multinode := c.PodsPerReplica(); !multinode && siblings > 1 {
		return nil
	}
	t, _ := defaultOf(c, candidates, s.Nodes)
	if t == nil {
		return nil
	}
	return automatic(t, c)
}

// bases returns the default topologies that are used.
func bases(defaults []*grovev1alpha1.ClusterTopology) (out []*trellisv1alpha1.ResolvedTopology) {
	for _, ct := range Counting(defaults) {
		out = append(out, newBase(ct))
	}
	return out
}

// automatic returns a default topology as the constraint of a component.
func automatic(t *trellisv1alpha1.ResolvedTopology, c *nvidiav1beta1.ComponentSpec) *trellisv1alpha1.ResolvedTopology {
	out := t.DeepCopy()
	out.Automatic, out.PackDomain, out.PreferredPackDomain = true, "", ""
	preferNarrowest(out, c)
	return out
}

// defaultOf chooses the topology whose nodes a component's pods can use. The candidates have different node selectors. If several
// candidates are suitable, it takes the candidate whose node selector is narrower than all others. It returns nil when none is suitable;
// when several are equally suitable, it returns nil and their names.
func defaultOf(
	c *nvidiav1beta1.ComponentSpec, candidates []*trellisv1alpha1.ResolvedTopology, nodes []*corev1.Node,
) (chosen *trellisv1alpha1.ResolvedTopology, several []string) {
	pod := &corev1.Pod{}
	if c.PodTemplate != nil {
		pod.Spec = c.PodTemplate.Spec
	}
	var suiting, offering []*trellisv1alpha1.ResolvedTopology
	for _, t := range candidates {
		if suits(pod, t.NodeSelector) {
			if suiting = append(suiting, t); offers(nodes, pod, t.NodeSelector) {
				offering = append(offering, t)
			}
		}
	}
	if len(offering) > 0 { // the other topologies have no such nodes
		suiting = offering
	}
	for _, t := range suiting {
		wider := func(o *trellisv1alpha1.ResolvedTopology) bool { return within(t.NodeSelector, o.NodeSelector) }
		if !slices.ContainsFunc(suiting, func(o *trellisv1alpha1.ResolvedTopology) bool { return !wider(o) }) {
			return t, nil
		}
	}
	for _, t := range suiting {
		several = append(several, t.ClusterTopology)
	}
	slices.Sort(several)
	return nil, several
}

// within reports whether every label in others is also in has.
func within(has, others map[string]string) bool {
	return labels.Set(others).AsSelectorPreValidated().Matches(labels.Set(has))
}

// offers reports whether at least one of the nodes has the labels in taken and matches the pod's node selector and required affinity.
func offers(nodes []*corev1.Node, pod *corev1.Pod, taken map[string]string) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		if !within(n.Labels, taken) {
			return false
		}
		selected, err := required.Match(n)
		return err == nil && selected
	})
}

// suits reports whether a node with the given labels could match the pod's selector and required affinity. The node may have further
// labels.
func suits(pod *corev1.Pod, labels map[string]string) bool {
	for key, value := range pod.Spec.NodeSelector {
		if has, is := labels[key]; is && has != value {
			return false
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(term corev1.NodeSelectorTerm) bool {
			return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return rulesOut(r, labels) })
		})
}

// rulesOut reports whether no node with the given labels can meet a requirement.
func rulesOut(r corev1.NodeSelectorRequirement, labels map[string]string) bool {
	value, is := labels[r.Key]
	if !is {
		return false
	}
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpDoesNotExist:
		return true
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil || len(r.Values) != 1 {
			return true
		}
		limit, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err != nil || r.Operator == corev1.NodeSelectorOpGt && number <= limit || r.Operator == corev1.NodeSelectorOpLt && number >= limit
	}
	return false
}
