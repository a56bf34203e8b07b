// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Labels of placeholders, of ProvisioningRequests and of their pod templates.
const (
	// LabelAsk is the name of the ask that an object belongs to.
	LabelAsk = "trellis.dev/capacity-request"
	// LabelGraphUID is the UID of the deployment that it is asked for.
	LabelGraphUID = "trellis.dev/capacity-request-for"
	// labelSet numbers the shapes of an ask.
	labelSet = "trellis.dev/capacity-request-set"
)

// Where is where the new nodes of a gang have to be, as far as an autoscaler can tell.
type Where struct {
	// Labels that all of them have.
	Labels map[string]string
	// Together is the label of which all of them have the same value; "" when they need not.
	Together string
}

// SetsOf sorts the pods of a gang by shape, the shape of most pods first.
func SetsOf(pods []*corev1.Pod, where Where) []Set {
	var sets []Set
	byShape := map[string]int{}
	for _, pod := range pods {
		set := setOf(pod, where)
		key, err := json.Marshal(set)
		if err != nil {
			panic(err) // API types always marshal
		}
		at, known := byShape[string(key)]
		if !known {
			at = len(sets)
			byShape[string(key)] = at
			sets = append(sets, set)
			sets[at].Count = 0
		}
		sets[at].Count++
	}
	slices.SortStableFunc(sets, func(a, b Set) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), strings.Compare(a.String(), b.String()))
	})
	return sets
}

// setOf is one pod with the shape of another, without what it runs and without what ties it to pods that exist.
func setOf(pod *corev1.Pod, where Where) Set {
	need := needOf(pod)
	spec := corev1.PodSpec{
		NodeSelector: maps.Clone(pod.Spec.NodeSelector), Tolerations: pod.Spec.Tolerations,
		Containers: []corev1.Container{{Name: "placeholder", Resources: corev1.ResourceRequirements{Requests: need, Limits: limitsOf(need)}}},
	}
	if len(where.Labels) > 0 && spec.NodeSelector == nil {
		spec.NodeSelector = map[string]string{}
	}
	maps.Copy(spec.NodeSelector, where.Labels)
	spec.Affinity = affinityOf(pod, where)
	return Set{Count: 1, Need: need, Template: corev1.PodTemplateSpec{Spec: spec}}
}

// needOf is what a pod requests, as the kube-scheduler counts it.
func needOf(pod *corev1.Pod) corev1.ResourceList {
	need := corev1.ResourceList{}
	for _, r := range topology.RequestsOf(pod) {
		need[corev1.ResourceName(r.Name)] = quantityOf(r)
	}
	return need
}

// limitsOf are the limits of those resources that may not be requested without.
func limitsOf(need corev1.ResourceList) corev1.ResourceList {
	var limits corev1.ResourceList
	for name, quantity := range need {
		if strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			if limits == nil {
				limits = corev1.ResourceList{}
			}
			limits[name] = quantity
		}
	}
	return limits
}

// affinityOf is what a pod requires of its node, and what the pods of one ask require of each other: [complete] adds the labels that these
// have.
func affinityOf(pod *corev1.Pod, where Where) *corev1.Affinity {
	out := &corev1.Affinity{}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		out.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.DeepCopy(),
		}
	}
	if where.Together != "" {
		out.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: where.Together}}}
	}
	if onePerHost(pod) {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
		}
	}
	if *out == (corev1.Affinity{}) {
		return nil
	}
	return out
}

// onePerHost reports whether a pod keeps some others off its host. Those of its gang are taken to be among them.
func onePerHost(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(term corev1.PodAffinityTerm) bool { return term.TopologyKey == corev1.LabelHostname })
}

// complete gives a template the labels of its ask, by which its pods know each other.
func complete(template *corev1.PodTemplateSpec, ask string, uid string, set int) {
	template.Labels = map[string]string{LabelAsk: ask, LabelGraphUID: uid, labelSet: fmt.Sprint(set)}
	if template.Spec.Affinity == nil {
		return
	}
	if a := template.Spec.Affinity.PodAffinity; a != nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{LabelAsk: ask}}
	}
	if a := template.Spec.Affinity.PodAntiAffinity; a != nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{
			MatchLabels: map[string]string{LabelAsk: ask, labelSet: fmt.Sprint(set)}}
	}
}

// harden makes a container that runs nothing of interest pass the Pod Security Standard "restricted".
func harden(spec *corev1.PodSpec) {
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), SeccompProfile: &corev1.SeccompProfile{
			Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// String describes how many pods request what: "2 pods x 8 nvidia.com/gpu".
func (s *Set) String() string {
	var extended, plain []string
	for _, name := range slices.Sorted(maps.Keys(s.Need)) {
		quantity := s.Need[name]
		amount := quantity.Value()
		if name == corev1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		text := placement.Amount(string(name), amount) + " " + string(name)
		if strings.Contains(string(name), "/") {
			extended = append(extended, text)
		} else {
			plain = append(plain, text)
		}
	}
	if len(extended) == 0 {
		extended = plain
	}
	word := "pods"
	if s.Count == 1 {
		word = "pod"
	}
	return fmt.Sprintf("%d %s x %s", s.Count, word, cmp.Or(strings.Join(extended, " and "), "no requests"))
}
