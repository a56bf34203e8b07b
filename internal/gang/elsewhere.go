// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Place is a node for a pod, and the shape of the pod.
type Place struct {
	Node  string
	Shape *topology.Shape
}

// Elsewhere plans a released, unbound gang as if the gang were still waiting. It changes nothing in the cluster. It returns a place for
// each of the gang's pods, by pod name; nil if there is no capacity for the gang without preemption. It also returns the requests of
// refused gangs (see [placement.UnmetOf]).
func Elsewhere(c *topology.Cluster, o Observation, gang string) (map[types.NamespacedName]Place, *placement.Unmet) {
	again := o
	again.Pods, again.Releasing = slices.Clone(o.Pods), maps.Clone(o.Releasing)
	members := map[string]bool{}
	for i, pod := range o.Pods {
		sg := groupOf(o.Groups, pod)
		if sg == nil || pod.Annotations[render.AnnotationGang] != gang || Leaving(pod) {
			continue
		}
		members[topology.PodID(pod)] = true
		again.Pods[i] = regated(sg, pod)
		delete(again.Releasing, topology.PodID(pod))
	}
	r := NewRequest(again)
	if len(r.Blocked) > 0 {
		return nil, nil
	}
	r.Graph.Preempts = false
	c.Begin()
	defer c.Rollback()
	for id := range members {
		c.DeletePod(id)
	}
	planned := placement.PlanGraph(c, r.Graph, placement.Options{})
	return r.placesOf(members, &planned), placement.UnmetOf(r.Graph, &planned)
}

// placesOf returns the places of the member pods in a plan, by name; nil unless the plan places all of them.
func (r *Request) placesOf(members map[string]bool, planned *placement.Result) map[types.NamespacedName]Place {
	found := map[types.NamespacedName]Place{}
	for _, replica := range planned.Replicas {
		for _, one := range replica.Pods {
			if pod := r.Gated[one.ID]; pod != nil && members[one.ID] {
				found[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = Place{one.Node, topology.ShapeOf(pod)}
			}
		}
	}
	if len(found) < len(members) {
		return nil
	}
	return found
}

func groupOf(groups []*trellisv1alpha1.ScalingGroup, pod *corev1.Pod) *trellisv1alpha1.ScalingGroup {
	for _, sg := range groups {
		if render.Member(pod, sg) {
			return sg
		}
	}
	return nil
}

// regated returns a copy of a released pod as the pod was before its release: with a closed gate, without a node, and only with the pins of
// its template.
func regated(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Spec.SchedulingGates = append(out.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: render.PlacementGate})
	out.Spec.NodeName, out.Status.NominatedNodeName = "", ""
	delete(out.Annotations, render.AnnotationGang)
	ordinal, index, _ := render.ReplicaOf(pod)
	template := render.BuildPod(sg, ordinal, index)
	if template == nil { // the replica now has fewer pods
		template = &corev1.Pod{}
	}
	if t := sg.Spec.Topology; t != nil {
		keys := slices.Collect(maps.Keys(t.NodeSelector))
		for _, level := range t.Levels {
			keys = append(keys, level.Key)
		}
		for _, key := range keys {
			delete(out.Spec.NodeSelector, key)
			if value, own := template.Spec.NodeSelector[key]; own {
				out.Spec.NodeSelector[key] = value
			}
		}
	}
	unnameNodes(out, template)
	return out
}

// unnameNodes removes node names from a pod's required node affinity, and removes the terms that are then empty. If the template itself
// names nodes, the pod gets the template's affinity.
func unnameNodes(pod, template *corev1.Pod) {
	required := requiredNodeTerms(pod)
	if required == nil {
		return
	}
	if own := requiredNodeTerms(template); own != nil && slices.ContainsFunc(own.NodeSelectorTerms, namesNodes) {
		pod.Spec.Affinity = template.Spec.Affinity
		return
	}
	var terms []corev1.NodeSelectorTerm
	for _, term := range required.NodeSelectorTerms {
		term.MatchFields = slices.DeleteFunc(slices.Clone(term.MatchFields), isNodeName)
		if len(term.MatchFields)+len(term.MatchExpressions) > 0 {
			terms = append(terms, term)
		}
	}
	if required.NodeSelectorTerms = terms; len(terms) > 0 {
		return
	}
	affinity := pod.Spec.Affinity
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	if reflect.ValueOf(*affinity.NodeAffinity).IsZero() {
		affinity.NodeAffinity = nil
	}
	if reflect.ValueOf(*affinity).IsZero() {
		pod.Spec.Affinity = nil
	}
}

func requiredNodeTerms(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func namesNodes(term corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(term.MatchFields, isNodeName)
}

func isNodeName(r corev1.NodeSelectorRequirement) bool { return r.Key == metav1.ObjectNameField }
