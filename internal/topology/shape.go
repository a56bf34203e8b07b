// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Request is the amount of one resource that a pod requests: cpu in thousandths, else the plain value.
type Request struct {
	Name   string
	Amount int64
}

// Shape is the part of a pod that determines which nodes can hold the pod and which capacity it uses there. Pods with equal [Shape.Key] are
// interchangeable.
type Shape struct {
	load        load
	selector    map[string]string
	hasAffinity bool
	affinity    nodeaffinity.RequiredNodeAffinity
	// affinityEntries counts the terms, expressions and values of affinity.
	affinityEntries int
	tolerations     []corev1.Toleration
	// preferred are the pod's preferred node affinity terms; nil: none.
	preferred *nodeaffinity.PreferredSchedulingTerms
	// features are the kubelet features that the pod uses.
	features featureSet
	// binds: the pod has rules that binders handle.
	binds bool
	// apart: see Apart.
	apart bool
	// avoid are the hosts that the pods avoid, sorted.
	avoid []string
	// refused are the places where a scheduler refused the pods; see [Refused].
	refused []Refused
	// rules are the rules that With added. plain is the shape without these rules; nil: this shape.
	rules []Rule
	plain *Shape
	pod   *corev1.Pod
	key   string
}

// ShapeOf returns the shape of a pod, bound or not.
func ShapeOf(pod *corev1.Pod) *Shape {
	s := &Shape{load: loadOf(pod), selector: pod.Spec.NodeSelector, tolerations: pod.Spec.Tolerations, pod: pod}
	s.affinity = nodeaffinity.GetRequiredNodeAffinity(pod)
	s.hasAffinity = requiredNodeTerms(pod) != nil
	s.affinityEntries = entriesOf(requiredNodeTerms(pod))
	s.preferred = preferredTerms(pod)
	s.features = featuresOf(pod)
	s.binds = bindsOf(pod, len(s.load.exclusive))
	s.key = shapeKey(pod, s)
	return s
}

// Key returns a text that is equal for two shapes if and only if their pods are interchangeable.
func (s *Shape) Key() string { return s.key }

// Digest identifies the shape in stored objects: a hash of its key.
func (s *Shape) Digest() string {
	sum := sha256.Sum256([]byte(s.key))
	return hex.EncodeToString(sum[:8])
}

// Requests returns the requests of one pod as the kube-scheduler counts them, in name order, without the pod slot.
func (s *Shape) Requests() []Request { return s.load.requests }

// load is the capacity that a pod uses on its node.
type load struct {
	requests []Request
	ports    []hostPort
	// exclusive are the pod's one-per-host rules.
	exclusive []string
}

// loadOf counts requests as the kube-scheduler does: with init and sidecar containers, overhead, resizes in progress, and every resource
// name.
func loadOf(pod *corev1.Pod) load {
	return load{requests: RequestsOf(pod), ports: portsOf(pod), exclusive: exclusiveOf(pod)}
}

// SameRequests reports whether two pods have the same requests as the kube-scheduler counts them. The requests depend on the pods' status,
// which differs during an in-place resize (KEP-1287).
func SameRequests(a, b *corev1.Pod) bool { return slices.Equal(RequestsOf(a), RequestsOf(b)) }

// counting contains the options with which the kube-scheduler counts a pod (framework.PodInfo.CalculateResource), with every feature gate
// on. Where a gate is off, the API server drops the fields of the feature, so the option has no effect.
var counting = resource.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
	UseDRANodeAllocatableResourceClaimStatus:       true,
}

// RequestsOf returns the requests of a pod as the kube-scheduler counts them, in name order: cpu in thousandths, otherwise the plain value.
func RequestsOf(pod *corev1.Pod) []Request {
	options := counting
	options.UseStatusResources = statusHasResources(pod)
	return requestsBy(pod, options)
}

func requestsBy(pod *corev1.Pod, options resource.PodResourcesOptions) []Request {
	var requests []Request
	for name, quantity := range resource.PodRequests(pod, options) {
		amount := quantity.Value()
		if name == corev1.ResourceCPU {
			amount = quantity.MilliValue()
		}
		if amount > 0 {
			requests = append(requests, Request{string(name), amount})
		}
	}
	slices.SortFunc(requests, func(a, b Request) int { return strings.Compare(a.Name, b.Name) })
	return requests
}

// statusHasResources reports whether the status of a pod can change its requests, which is not the case for a pod that has not started.
// RequestsOf then ignores the status, which saves two of three passes over the containers.
func statusHasResources(pod *corev1.Pod) bool {
	inStatus := func(c corev1.ContainerStatus) bool { return c.AllocatedResources != nil || c.Resources != nil }
	status := &pod.Status
	return status.Resources != nil || resource.IsPodResizeInfeasible(pod) ||
		slices.ContainsFunc(status.ContainerStatuses, inStatus) || slices.ContainsFunc(status.InitContainerStatuses, inStatus)
}

func portsOf(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			hp := hostPort{string(p.Protocol), p.HostIP, p.HostPort}
			if hp.protocol == "" {
				hp.protocol = string(corev1.ProtocolTCP)
			}
			if hp.ip == "" {
				hp.ip = anyAddress
			}
			ports = append(ports, hp)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	slices.SortFunc(ports, compareHostPorts)
	return slices.Compact(ports)
}

// exclusiveOf returns the keys of the pod's one-per-host rules. Such a rule is a required anti-affinity term that matches the pod's own
// labels on one host, so two pods with the same term exclude each other. One-per-host rules are common and cheap to count. Binders handle
// all other terms.
func exclusiveOf(pod *corev1.Pod) []string {
	var keys []string
	for _, term := range antiAffinityTerms(pod) {
		if key, is := OnePerHost(pod, &term); is {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// OnePerHost returns the key of a one-per-host term; false for other terms. The key is the same for all pods that exclude each other by the
// term.
func OnePerHost(pod *corev1.Pod, term *corev1.PodAffinityTerm) (key string, is bool) {
	if !ownHostTerm(pod, term) {
		return "", false
	}
	return pod.Namespace + "|" + metav1.FormatLabelSelector(term.LabelSelector), true
}

func antiAffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func ownHostTerm(pod *corev1.Pod, term *corev1.PodAffinityTerm) bool {
	foreign := len(term.Namespaces) > 0 && !slices.Contains(term.Namespaces, pod.Namespace)
	if term.TopologyKey != corev1.LabelHostname || term.NamespaceSelector != nil || foreign || len(term.MismatchLabelKeys) > 0 {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// bindsOf reports whether the pod has rules that binders handle: about other pods (except one-per-host terms), volumes, or devices.
func bindsOf(pod *corev1.Pod, exclusive int) bool {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return true
	}
	return len(antiAffinityTerms(pod)) > exclusive ||
		slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule
		}) || len(pod.Spec.ResourceClaims) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

func requiredNodeTerms(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// entriesOf counts the terms, expressions and values of a node selector with which a node is compared.
func entriesOf(selector *corev1.NodeSelector) (n int) {
	if selector == nil {
		return 0
	}
	for i := range selector.NodeSelectorTerms {
		n++
		for _, e := range selector.NodeSelectorTerms[i].MatchExpressions {
			n += 1 + len(e.Values)
		}
		for _, e := range selector.NodeSelectorTerms[i].MatchFields {
			n += 1 + len(e.Values)
		}
	}
	return n
}
