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

// Labels of placeholders, ProvisioningRequests and their PodTemplates.
const (
	// LabelAsk contains the name of the capacity request to which an object belongs.
	LabelAsk = "trellis.dev/capacity-request"
	// LabelGraphUID contains the UID of the deployment for which capacity is requested.
	LabelGraphUID = "trellis.dev/capacity-request-for"
	// labelSet contains the index of a set in a capacity request.
	labelSet = "trellis.dev/capacity-request-set"
)

// Where is the required location of a gang's new nodes, as far as an autoscaler can provide it.
type Where struct {
	// Labels are labels that all nodes must have.
	Labels map[string]string
	// Together is the key of a label that must have the same value on all nodes; "" for none.
	Together string
}

// SetsOf groups the pods of a gang by shape, the largest set first.
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

// setOf returns a set of one pod with the shape of the given pod. It omits the pod's own containers and its references to existing pods.
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

// needOf returns the resource requests of a pod, as the kube-scheduler calculates them.
func needOf(pod *corev1.Pod) corev1.ResourceList {
	need := corev1.ResourceList{}
	for _, r := range topology.RequestsOf(pod) {
		need[corev1.ResourceName(r.Name)] = quantityOf(r)
	}
	return need
}

// limitsOf returns limits for those resources that require a limit.
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

// affinityOf returns a pod's required node affinity, and the affinity rules among the pods of one capacity request. [complete] adds the
// label selectors of these rules.
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

// onePerHost reports whether a pod has a required anti-affinity to other pods on its host. These other pods are assumed to be the other
// pods of its gang.
func onePerHost(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(term corev1.PodAffinityTerm) bool { return term.TopologyKey == corev1.LabelHostname })
}

// complete adds to a template the labels of its capacity request, and makes the template's affinity terms select these labels.
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

// harden makes the placeholder container comply with the Pod Security Standard "restricted".
func harden(spec *corev1.PodSpec) {
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), SeccompProfile: &corev1.SeccompProfile{
			Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// String describes the set and its requests: "2 pods x 8 nvidia.com/gpu".
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
