// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates places pods by scheduling gates (KEP-3521): a gated pod's node selector may still be narrowed, so one patch
// adds the pins and opens the gate, and the ordinary kube-scheduler binds the pod inside its domain.
package gates

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Made reports whether pods were made for no other provider: those would wait for what only that provider makes.
func Made(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Annotations[render.AnnotationPodProvider] != "" })
}

// PinnedTo reports whether a released pod has the pins of a domain, and of a host where one is given: the rest of its gang has other hosts.
func PinnedTo(pod *corev1.Pod, pin gang.Pin, byName bool) bool {
	if host := hostOf(pin, byName); host != "" && gang.PinnedHost(pod) != host {
		return false
	}
	for key, value := range pin.Labels {
		if pod.Spec.NodeSelector[key] != value {
			return false
		}
	}
	return true
}

// hostOf is the only host that a pin allows; "" where there are several.
func hostOf(pin gang.Pin, byName bool) string {
	if pin.Node == "" && byName && len(pin.Nodes) == 1 {
		return pin.Nodes[0]
	}
	return pin.Node
}

// releasePatch is written out, since finding it by comparing two pods is most of the operator's work for it. It is a strategic merge patch:
// a JSON merge patch costs the API server 1.5 times as much, since that takes the whole pod through JSON.
type releasePatch struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
		Labels          map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		SchedulingGates []noGate          `json:"schedulingGates"`
		NodeSelector    map[string]string `json:"nodeSelector,omitempty"`
		Affinity        *corev1.Affinity  `json:"affinity,omitempty"`
	} `json:"spec"`
}

// noGate takes one gate from a pod and leaves those of others.
type noGate struct {
	Directive string `json:"$patch"`
	Name      string `json:"name"`
}

// Patch is what releases a pod: pins added, Trellis' gate taken out, gates of others left closed. It carries the resourceVersion that it
// was made from. With nameNodes the names of nodes are written where the pin gives them.
func Patch(pod *corev1.Pod, pin gang.Pin, nameNodes bool) ([]byte, error) {
	return json.Marshal(patchFor(pod, pin, nameNodes))
}

func patchFor(pod *corev1.Pod, pin gang.Pin, byName bool) releasePatch {
	var patch releasePatch
	patch.Metadata.ResourceVersion = pod.ResourceVersion
	patch.Metadata.Annotations = map[string]string{render.AnnotationGang: pin.Gang}
	if pin.GangReplicas != "" {
		patch.Metadata.Annotations[render.AnnotationGangReplicas] = pin.GangReplicas
	}
	maps.Copy(patch.Metadata.Annotations, pin.PodAnnotations)
	patch.Metadata.Labels = merged(render.TopologyLabels(pod, pin.Labels), pin.PodLabels)
	patch.Spec.SchedulingGates = []noGate{{Directive: "delete", Name: render.PlacementGate}}
	patch.Spec.NodeSelector = pin.Labels
	switch host := hostOf(pin, byName); {
	case host != "":
		patch.Spec.Affinity = pinHost(pod.Spec.Affinity, host)
	case byName && len(pin.Nodes) > 0 && !hasTerms(pod.Spec.Affinity):
		patch.Spec.Affinity = nameNodes(pod.Spec.Affinity, pin.Nodes)
	}
	return patch
}

// Open gives a pod that is about to be created its place: what [Patch] gives one that exists.
func Open(pod *corev1.Pod, pin gang.Pin, byName bool) {
	patch := patchFor(pod, pin, byName)
	for key, value := range patch.Metadata.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	for key, value := range patch.Metadata.Labels {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	}
	pod.Spec.SchedulingGates = slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), func(gate corev1.PodSchedulingGate) bool {
		return gate.Name == render.PlacementGate
	})
	if len(patch.Spec.NodeSelector) > 0 {
		pod.Spec.NodeSelector = merged(patch.Spec.NodeSelector, pod.Spec.NodeSelector)
	}
	if patch.Spec.Affinity != nil {
		pod.Spec.Affinity = patch.Spec.Affinity
	}
}

func merged(labels, more map[string]string) map[string]string {
	if len(more) == 0 {
		return labels
	}
	out := maps.Clone(more)
	maps.Copy(out, labels)
	return out
}

// pinHost requires the node by its name, which is unique even where hostname labels are not. Terms of a node affinity are
// alternatives, so each of them gets the requirement; without any there will be one.
func pinHost(had *corev1.Affinity, node string) *corev1.Affinity {
	affinity, required := requiring(had)
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, named(node))
	}
	return affinity
}

// nameNodes requires any one of the nodes: an alternative for each, since a field can be compared with one value only. The kube-scheduler
// then filters these nodes alone. Terms of the pod's own would have to be multiplied with them, so only a pod without any is served.
func nameNodes(had *corev1.Affinity, nodes []string) *corev1.Affinity {
	affinity, required := requiring(had)
	for _, node := range nodes {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			named(node)}})
	}
	return affinity
}

func named(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}

// requiring returns a copy of an affinity, and what it requires of nodes, to be added to.
func requiring(had *corev1.Affinity) (*corev1.Affinity, *corev1.NodeSelector) {
	affinity := had.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	if affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return affinity, affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func hasTerms(affinity *corev1.Affinity) bool {
	return affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}
