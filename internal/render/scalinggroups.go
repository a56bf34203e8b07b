// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// ScalingGroups returns the ScalingGroup of every component. The caller sets owner references.
func (g *Graph) ScalingGroups() []*trellisv1alpha1.ScalingGroup {
	groups := make([]*trellisv1alpha1.ScalingGroup, 0, len(g.Components))
	for i := range g.Components {
		groups = append(groups, g.scalingGroup(&g.Components[i]))
	}
	return groups
}

func (g *Graph) scalingGroup(s *Component) *trellisv1alpha1.ScalingGroup {
	sg := &trellisv1alpha1.ScalingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: trellisv1alpha1.GroupVersion.String(), Kind: "ScalingGroup"},
		ObjectMeta: g.meta(s, s.GroupName),
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph:     g.Name,
			Component: s.Name,
			Provider:  g.Provider,
			Replicas:  s.Replicas,
			Multinode: s.Multinode,
			Topology:  s.Topology.DeepCopy(),
			Input:     s.Input.DeepCopy(),
			Revision:  s.Revision,
			Rollout:   s.Rollout.DeepCopy(),
			Step:      s.Step.DeepCopy(),
			Restart:   s.Restart.DeepCopy(),
			Moves:     g.Moves,
		},
	}
	if s.MinAvailable != nil {
		sg.Spec.MinAvailable = ptr.To(*s.MinAvailable)
	}
	if s.Multinode {
		sg.Spec.Workload = g.Workload
	}
	if g.queue != "" && !Gated(sg) { // pods of gangs get the queue from their PodGroup
		metav1.SetMetaDataAnnotation(&sg.ObjectMeta, AnnotationQueue, g.queue)
	}
	delete(sg.Annotations, AnnotationKueueQueue)
	if g.kueueQueue != "" {
		metav1.SetMetaDataAnnotation(&sg.ObjectMeta, AnnotationKueueQueue, g.kueueQueue)
	}
	for i := range s.Roles {
		sg.Spec.Roles = append(sg.Spec.Roles, *s.Roles[i].DeepCopy())
	}
	sg.Spec.Pods = ptr.To(wantedPods(sg))
	return sg
}

// wantedPods returns the number of pods of all wanted replicas, at most math.MaxInt32.
func wantedPods(sg *trellisv1alpha1.ScalingGroup) int32 {
	return int32(min(int64(sg.Spec.Replicas)*int64(PodsPerReplica(sg)), math.MaxInt32))
}

func (g *Graph) meta(s *Component, name string) metav1.ObjectMeta {
	labels := maps.Clone(s.Labels)
	maps.Copy(labels, groupSelector(g.Name, s.GroupName))
	return metav1.ObjectMeta{Name: name, Namespace: g.Namespace, Labels: labels, Annotations: maps.Clone(s.Annotations)}
}

// groupSelector returns labels that select the pods of one component. The labels include the graph's name, because graph "a-b" with
// component "c" and graph "a" with component "b-c" have the same group name.
func groupSelector(graph, group string) map[string]string {
	return map[string]string{LabelGraph: LabelValue(graph), LabelScalingGroup: group}
}

// SortedGroups returns the groups sorted by component, so that the rendered result does not depend on the order of a list.
func SortedGroups(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
	return slices.SortedFunc(slices.Values(groups), func(a, b *trellisv1alpha1.ScalingGroup) int {
		return cmp.Compare(a.Spec.Component, b.Spec.Component)
	})
}

// PriorityClass returns the priority class of the graph's pods; "" if they have none or if their classes differ.
func PriorityClass(groups []*trellisv1alpha1.ScalingGroup) string {
	class := ""
	for i, sg := range groups {
		for j := range sg.Spec.Roles {
			name := sg.Spec.Roles[j].Template.Spec.PriorityClassName
			if i+j > 0 && name != class {
				return ""
			}
			class = name
		}
	}
	return class
}
