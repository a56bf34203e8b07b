// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates places pods by means of scheduling gates (KEP-3521). Kubernetes allows narrowing the node selector of a gated pod, so one
// patch adds the pins and removes the gate, and the kube-scheduler binds the pod inside its domain.
package gates

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Made reports whether all pods were made for Gates. A pod that another provider prepared would wait for objects that only that provider
// makes.
func Made(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Annotations[render.AnnotationPodProvider] != "" })
}

// PinnedTo reports whether a released pod has the given pins. Another leader may have released the pod to another domain or host.
func PinnedTo(pod *corev1.Pod, pin gang.Pin) bool {
	if pin.Node != "" && gang.PinnedHost(pod) != pin.Node {
		return false
	}
	for key, value := range pin.Labels {
		if pod.Spec.NodeSelector[key] != value {
			return false
		}
	}
	return true
}

// releasePatch is built field by field, because computing the difference of two pods would take most of the operator's CPU time. It is a
// strategic merge patch, because a JSON merge patch costs the API server 1.5 times as much: it converts the whole pod to JSON.
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

// noGate removes one gate from a pod and keeps the gates of other controllers.
type noGate struct {
	Directive string `json:"$patch"`
	Name      string `json:"name"`
}

// Patch returns the patch that releases a pod: it adds the pins and removes Trellis' gate, but keeps the gates of other controllers. The
// patch contains the pod's resourceVersion, so it fails if the pod has changed.
func Patch(pod *corev1.Pod, pin gang.Pin) ([]byte, error) {
	return json.Marshal(patchFor(pod, pin))
}

func patchFor(pod *corev1.Pod, pin gang.Pin) releasePatch {
	var patch releasePatch
	patch.Metadata.ResourceVersion = pod.ResourceVersion
	patch.Metadata.Annotations = map[string]string{render.AnnotationGang: pin.Gang}
	if pin.Attempt > 0 {
		patch.Metadata.Annotations[render.AnnotationAttempt] = strconv.Itoa(int(pin.Attempt))
	}
	maps.Copy(patch.Metadata.Annotations, pin.PodAnnotations)
	patch.Metadata.Labels = merged(render.TopologyLabels(pod, pin.Labels), pin.PodLabels)
	patch.Spec.SchedulingGates = []noGate{{Directive: "delete", Name: render.PlacementGate}}
	patch.Spec.NodeSelector = pin.Labels
	if pin.Node != "" {
		patch.Spec.Affinity = pinHost(pod.Spec.Affinity, pin.Node)
	}
	return patch
}

// Open pins a new pod and removes Trellis' gate before the pod is created, as [Patch] does for an existing pod.
func Open(pod *corev1.Pod, pin gang.Pin) {
	patch := patchFor(pod, pin)
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

// pinHost adds a required node affinity for the node's name, which is unique even if hostname labels are not. The terms of a required node
// affinity are alternatives, so pinHost adds the requirement to each term; a pod without terms gets one term. pinHost skips an empty term:
// it matches no node, and the API server refuses changes to it.
func pinHost(had *corev1.Affinity, node string) *corev1.Affinity {
	affinity := had.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		only := []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named(node)}}}
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: only}
		return affinity
	}
	for i := range required.NodeSelectorTerms {
		if term := &required.NodeSelectorTerms[i]; len(term.MatchExpressions)+len(term.MatchFields) > 0 {
			term.MatchFields = append(term.MatchFields, named(node))
		}
	}
	return affinity
}

func named(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}
