// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/internal/field"
)

// Bounds for the lists in a pod that the planner compares with every node of the cluster, for every waiting graph. The bounds are far above
// the needs of any program.
const (
	maxHostPorts     = 256
	maxTolerations   = 256
	maxNodeSelector  = 64
	maxResourceNames = 64
	maxSpread        = 64
	maxClaimsOfPod   = 64
	// maxTermEntries bounds the total number of terms, expressions and values in a required affinity.
	maxTermEntries = 1024
)

// comparedLists bounds the lists that the planner compares, so that no deployment can take up the planner's time at the expense of other
// deployments.
func comparedLists(s component) field.ErrorList {
	spec, path := &s.template().Spec, s.podPath()
	errs := hostPorts(s, spec)
	bounded := func(n, most int, what, fix string, path *field.Path) {
		if n > most {
			errs = append(errs, tooLong(path, n, most, what, fix))
		}
	}
	bounded(len(spec.Tolerations), maxTolerations, "tolerations", "tolerate a key with operator Exists instead of each value",
		path.Child("tolerations"))
	bounded(len(spec.NodeSelector), maxNodeSelector, "labels", "label the nodes of a pool with one label, and select that",
		path.Child("nodeSelector"))
	bounded(len(spec.TopologySpreadConstraints), maxSpread, "constraints", "remove some", path.Child("topologySpreadConstraints"))
	bounded(len(spec.ResourceClaims), maxClaimsOfPod, "claims", "ask for several devices in one claim", path.Child("resourceClaims"))
	bounded(resourceNames(spec), maxResourceNames, "names of resources in all containers", "remove some", s.mainPath("resources"))
	if spec.Affinity == nil {
		return errs
	}
	const required, fix = "requiredDuringSchedulingIgnoredDuringExecution",
		"put one label on all the nodes or pods that you mean, and select that"
	const entries = "terms, expressions and values"
	path = path.Child("affinity")
	if a := spec.Affinity.NodeAffinity; a != nil {
		bounded(nodeEntries(a.RequiredDuringSchedulingIgnoredDuringExecution), maxTermEntries, entries, fix, path.Child("nodeAffinity", required))
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		bounded(podEntries(a.RequiredDuringSchedulingIgnoredDuringExecution), maxTermEntries, entries, fix, path.Child("podAffinity", required))
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		bounded(podEntries(a.RequiredDuringSchedulingIgnoredDuringExecution), maxTermEntries, entries, fix, path.Child("podAntiAffinity",
			required))
	}
	return errs
}

func tooLong(path *field.Path, n, most int, what, fix string) *field.Error {
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path, BadValue: n,
		Detail: field.Say("must have at most %d %s: they are compared with every node; %s", most, what, fix)}
}

// hostPorts limits the number of host ports of a pod. If the pod uses the host's network, every port of its containers is a host port.
func hostPorts(s component, spec *corev1.PodSpec) field.ErrorList {
	sum, most, at := 0, 0, s.path
	count := func(list string, containers []corev1.Container) {
		for i := range containers {
			n := 0
			for _, p := range containers[i].Ports {
				if p.HostPort > 0 || spec.HostNetwork && p.ContainerPort > 0 {
					n++
				}
			}
			if sum += n; n <= most {
				continue
			}
			most, at = n, s.podPath(list).Key(short(containers[i].Name))
		}
	}
	count("containers", spec.Containers)
	count("initContainers", spec.InitContainers)
	if sum <= maxHostPorts {
		return nil
	}
	return one(tooLong(at.Child("ports"), sum, maxHostPorts, "host ports in all containers",
		"remove host ports: pods reach each other without them"))
}

// resourceNames returns the number of distinct resources that the pod requests.
func resourceNames(spec *corev1.PodSpec) int {
	names := sets.New[corev1.ResourceName]()
	add := func(r *corev1.ResourceRequirements) {
		names.Insert(sets.KeySet(r.Requests).UnsortedList()...)
		names.Insert(sets.KeySet(r.Limits).UnsortedList()...)
	}
	for i := range spec.Containers {
		add(&spec.Containers[i].Resources)
	}
	for i := range spec.InitContainers {
		add(&spec.InitContainers[i].Resources)
	}
	if spec.Resources != nil {
		add(spec.Resources)
	}
	return len(names)
}

// nodeEntries returns the number of terms, expressions and values in a node selector. The planner compares each of them with each node.
func nodeEntries(selector *corev1.NodeSelector) (n int) {
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

// podEntries returns the number of terms, expressions and values in affinity terms. The planner compares each of them with each pod.
func podEntries(terms []corev1.PodAffinityTerm) (n int) {
	for i := range terms {
		n += 1 + len(terms[i].Namespaces) + labelEntries(terms[i].LabelSelector) + labelEntries(terms[i].NamespaceSelector)
	}
	return n
}

func labelEntries(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	n := len(selector.MatchLabels)
	for _, e := range selector.MatchExpressions {
		n += 1 + len(e.Values)
	}
	return n
}
