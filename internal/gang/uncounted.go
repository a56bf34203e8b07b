// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Uncounted is a resource that is not counted on hosts of some pods, because a DeviceClass serves the resource, and these hosts do not
// offer it themselves.
type Uncounted struct {
	Resource string
	// Components are the names of the components with pods on such hosts.
	Components []string
}

// UncountedOf lists, by name, the resources of the graph's placed pods that are not counted on the pods' hosts.
func UncountedOf(c *topology.Cluster, o Observation) []Uncounted {
	found := map[string]map[string]bool{}
	var pods map[string][]*corev1.Pod
	for _, sg := range o.Groups {
		if !render.Gated(sg) {
			continue
		}
		for i := range sg.Spec.Roles {
			served := c.Served(topology.ShapeOf(&corev1.Pod{Spec: sg.Spec.Roles[i].Template.Spec}))
			if len(served) == 0 {
				continue
			}
			if pods == nil {
				pods = podsByGroup(o.Pods)
			}
			for _, name := range served {
				if slices.ContainsFunc(pods[string(sg.UID)], func(pod *corev1.Pod) bool {
					return pod.Labels[render.LabelRole] == sg.Spec.Roles[i].Name && claims(c, pod, name)
				}) {
					if found[name] == nil {
						found[name] = map[string]bool{}
					}
					found[name][sg.Spec.Component] = true
				}
			}
		}
	}
	var out []Uncounted
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, Uncounted{name, slices.Sorted(maps.Keys(found[name]))})
	}
	return out
}

// WhyUncounted explains, for each component that Trellis places, why a request of its pods is not counted. why returns the explanation for
// a pod of a component; "" when all of its requests are counted.
func WhyUncounted(o Observation, why func(*corev1.Pod) string) map[string]string {
	var out map[string]string
	for _, sg := range o.Groups {
		if !render.Gated(sg) {
			continue
		}
		for i := range sg.Spec.Roles {
			pod := &corev1.Pod{Spec: sg.Spec.Roles[i].Template.Spec}
			pod.Namespace = sg.Namespace
			if not := why(pod); not != "" {
				if out == nil {
					out = map[string]string{}
				}
				out[sg.Spec.Component] = not
			}
		}
	}
	return out
}

// claims reports whether a pod's node does not offer a resource that the pod requests.
func claims(c *topology.Cluster, pod *corev1.Pod, resource string) bool {
	return !Leaving(pod) && slices.ContainsFunc(NodesOf(c, topology.PodID(pod)), func(node string) bool { return !c.Offers(node, resource) })
}
