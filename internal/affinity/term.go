// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// term is one term of pod affinity or anti-affinity.
type term struct {
	key        string
	namespaces []string
	// byLabels selects further namespaces by their labels.
	byLabels labels.Selector
	selector labels.Selector
	// perHost is the key of a one-per-host term ([topology.OnePerHost]), which matches its own pod and applies to single hosts; "" for
	// other terms. The node's one-per-host count covers the pods that have the same term. In this package, the term applies only to other
	// matching pods.
	perHost string
	// text is equal for equal terms.
	text string
}

// termOf parses a term of a pod. An invalid term matches no pod.
func termOf(pod *corev1.Pod, t *corev1.PodAffinityTerm) term {
	out := term{key: t.TopologyKey, namespaces: slices.Sorted(slices.Values(t.Namespaces)), byLabels: selectorOf(t.NamespaceSelector)}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		out.namespaces = []string{pod.Namespace}
	}
	out.selector = withKeys(selectorOf(t.LabelSelector), pod.Labels, t.MatchLabelKeys, selection.In)
	out.selector = withKeys(out.selector, pod.Labels, t.MismatchLabelKeys, selection.NotIn)
	out.text = strings.Join([]string{out.key, strings.Join(out.namespaces, ","), textOf(out.byLabels), textOf(out.selector)}, "\x00")
	return out
}

// repulsion parses an anti-affinity term of a pod.
func repulsion(pod *corev1.Pod, t *corev1.PodAffinityTerm) term {
	out := termOf(pod, t)
	if key, is := topology.OnePerHost(pod, t); is {
		out.perHost, out.text = key, out.text+"\x00per host"
	}
	return out
}

// carries reports whether a pod has the one-per-host term with this key, so that the node's one-per-host count already covers it.
func carries(pod *corev1.Pod, perHost string) bool {
	if perHost == "" {
		return false
	}
	terms := antiAffinityTerms(pod)
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		key, is := topology.OnePerHost(pod, &t)
		return is && key == perHost
	})
}

// textOf returns the text of a selector: "nothing" for a selector that matches nothing, because the empty text stands for a selector that
// matches everything.
func textOf(s labels.Selector) string {
	if nothing(s) {
		return "nothing"
	}
	return s.String()
}

// nothing reports whether a selector matches nothing.
func nothing(s labels.Selector) bool {
	_, selectable := s.Requirements()
	return !selectable
}

// selectorOf parses a selector; nil and invalid selectors match nothing.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// withKeys adds the pod's own values of the given labels to a selector, as the API server does on creation. It skips labels that the pod
// lacks.
func withKeys(s labels.Selector, own map[string]string, keys []string, operator selection.Operator) labels.Selector {
	if nothing(s) {
		return s
	}
	for _, key := range keys {
		value, has := own[key]
		if !has {
			continue
		}
		if requirement, err := labels.NewRequirement(key, operator, []string{value}); err == nil {
			s = s.Add(*requirement)
		}
	}
	return s
}

// matches reports whether a term matches a pod whose namespace has the given labels.
func (t *term) matches(pod *corev1.Pod, namespace map[string]string) bool {
	return (slices.Contains(t.namespaces, pod.Namespace) || t.byLabels.Matches(labels.Set(namespace))) &&
		t.selector.Matches(labels.Set(pod.Labels))
}

func affinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func antiAffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}
