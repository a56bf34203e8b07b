// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Tried is the place in which a released pod's own constraints let the scheduler look for a node.
type Tried struct {
	// Shape is the digest of the pod's shape before its release ([topology.Shape.Digest]).
	Shape string
	// Hosts are the hosts that the pod names. Domain is the path of the domain to which the pod is pinned; it is ignored if there are
	// Hosts.
	Hosts  []string
	Domain topology.Path
	// Place is the pod's topology.
	placement.Place
}

// TriedFor returns the place where a scheduler looked for a node for a released pod; false when the pod could be bound anywhere, or when
// its group is gone.
func TriedFor(groups []*trellisv1alpha1.ScalingGroup, pod *corev1.Pod) (Tried, bool) {
	sg := groupOf(groups, pod)
	if sg == nil {
		return Tried{}, false
	}
	t := Tried{Shape: topology.ShapeOf(regated(sg, pod)).Digest(), Hosts: hostsNamed(pod), Place: placeOf(sg)}
	t.Domain = t.Levels.PathOf(pod.Spec.NodeSelector)
	return t, len(t.Hosts) > 0 || len(t.Domain) > 0
}

// hostsNamed returns the nodes to which a pod's required node affinity restricts it by name, sorted; nil when other nodes are allowed, too.
// Terms are alternatives, and a term without requirements matches no node. All requirements of a term must hold, so a term allows only the
// names in all of its lists.
func hostsNamed(pod *corev1.Pod) (hosts []string) {
	terms := requiredNodeTerms(pod)
	if terms == nil {
		return nil
	}
	for _, term := range terms.NodeSelectorTerms {
		if len(term.MatchFields)+len(term.MatchExpressions) == 0 {
			continue
		}
		named, narrowed := []string(nil), false
		for _, r := range term.MatchFields {
			switch {
			case !isNodeName(r) || r.Operator != corev1.NodeSelectorOpIn:
			case !narrowed:
				named, narrowed = slices.Clone(r.Values), true
			default:
				named = slices.DeleteFunc(named, func(host string) bool { return !slices.Contains(r.Values, host) })
			}
		}
		if !narrowed {
			return nil
		}
		hosts = append(hosts, named...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// RefusedEverywhere plans a graph again as if no scheduler had refused a place. It returns the new results of the replicas that the first
// plan refused, and changes nothing in the cluster. If a replica is placed this time, only places where a scheduler refused it have
// capacity for it.
func (r *Request) RefusedEverywhere(c *topology.Cluster, planned *placement.Result) map[Key]placement.ReplicaResult {
	out := map[Key]placement.ReplicaResult{}
	if len(r.Graph.Refused) == 0 || planned.Placed() {
		return out
	}
	again := r.Graph
	again.Refused = nil
	c.Begin()
	defer c.Rollback()
	trial := placement.PlanGraph(c, again, placement.Options{})
	for i, one := range trial.Replicas {
		if planned.Replicas[i].Refusal != nil {
			out[Key{Component: one.Component, Ordinal: one.Ordinal}] = one
		}
	}
	return out
}

// ShapesOf returns the digests of the shapes of a waiting replica's pods.
func (r *Request) ShapesOf(key Key) map[string]bool {
	out := map[string]bool{}
	for _, component := range r.Graph.Components {
		for _, replica := range component.Waiting {
			if component.Name == key.Component && replica.Ordinal == key.Ordinal {
				for _, pod := range replica.Pods {
					out[pod.Shape.Digest()] = true
				}
			}
		}
	}
	return out
}
