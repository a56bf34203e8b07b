// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// NewCluster returns an empty cluster cache that knows which pods stand and fall together, and what else binds pods.
func NewCluster(binders ...topology.Binder) *topology.Cluster {
	c := topology.NewCluster()
	c.GangOf, c.Binders = Of, binders
	return c
}

// Reserve reserves capacity for the graph's released, unbound pods that have none. A pod pinned to a host sits there; for pods pinned by
// labels the planner looks for capacity in their domain, which the kube-scheduler will find as well. Idle pods get none.
func Reserve(c *topology.Cluster, o Observation) {
	byGroup := podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		levels := LevelsOf(sg.Spec.Topology)
		for path, pods := range unreserved(c, o, levels, byGroup[string(sg.UID)]) {
			reserve(c, levels, parsePath(path), pods)
		}
	}
}

// unreserved returns the released, unbound pods without a reservation, by pinned path.
func unreserved(c *topology.Cluster, o Observation, levels topology.Levels, pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if !WaitsForScheduler(pod) || o.Idle[topology.PodID(pod)] != "" {
			continue
		}
		if _, has := c.Reserved(topology.PodID(pod)); has {
			continue
		}
		path := levels.PathOf(pod.Spec.NodeSelector).String()
		out[path] = append(out[path], pod)
	}
	return out
}

func reserve(c *topology.Cluster, levels topology.Levels, path topology.Path, pods []*corev1.Pod) {
	var free []placement.Pod
	for _, pod := range pods {
		id, shape := topology.PodID(pod), topology.ShapeOf(pod)
		if host := PinnedHost(pod); host != "" {
			c.AssumePinned(id, host, shape, pod.Spec.NodeSelector)
			continue
		}
		free = append(free, placement.Pod{ID: id, Name: pod.Name, Shape: shape})
	}
	if len(free) == 0 {
		return
	}
	if _, ok := placement.Locate(c, path, levels, free); ok {
		return
	}
	for _, pod := range free { // not all fit any more: reserve for those that do; the rest will be requeued
		placement.Locate(c, path, levels, []placement.Pod{pod})
	}
}

// ReserveRest reserves capacity for the gated pods of replicas of which others are released, as after a restart in the middle of a
// release, and returns them by ID. They are planned like others that wait; until then no one else may have it.
func ReserveRest(c *topology.Cluster, o Observation) []string {
	r := NewRequest(o)
	var rest []string
	for i := range r.Graph.Components {
		for _, replica := range r.Graph.Components[i].Waiting {
			if _, half := r.halves[Key{r.Graph.Components[i].Name, replica.Ordinal}]; !half {
				continue
			}
			for _, pod := range replica.Pods {
				rest = append(rest, pod.ID)
			}
			place := r.Graph.PlaceOf(r.Graph.Components[i].Name)
			if reserveRest(c, place, replica.Anchor, replica.Pods) {
				continue
			}
			for j := range replica.Pods {
				reserveRest(c, place, replica.Anchor, replica.Pods[j:j+1])
			}
		}
	}
	return rest
}

func reserveRest(c *topology.Cluster, place placement.Place, within topology.Path, pods []placement.Pod) bool {
	_, refusal := placement.PlanGroup(c, place.Levels, place.NodeSelector, &placement.Group{
		Required: topology.NoLevel, Preferred: topology.NoLevel, Within: within, Pods: pods,
	}, placement.Options{})
	return refusal == nil
}

// NodesOf is the node that a pod takes capacity of, if any.
func NodesOf(c *topology.Cluster, id string) []string {
	if node, has := c.Reserved(id); has {
		return []string{node}
	}
	if node, bound := c.Bound(id); bound {
		return []string{node}
	}
	return nil
}

// Score is that of all replicas of the graph that a constraint packs, by the nodes that their pods are bound to or have reserved.
func Score(c *topology.Cluster, o Observation) float64 {
	least := float64(placement.Unscored)
	pods := podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		if !render.Gated(sg) || sg.Spec.Topology == nil {
			continue
		}
		var replicas [][]string
		for _, members := range podsByOrdinal(pods[string(sg.UID)]) {
			var hosts []string
			for _, pod := range members {
				if !Leaving(pod) {
					hosts = append(hosts, NodesOf(c, topology.PodID(pod))...)
				}
			}
			replicas = append(replicas, hosts)
		}
		if one := placement.Score(c, LevelsOf(sg.Spec.Topology), replicas); one != placement.Unscored && (least == placement.Unscored ||
			one < least) {
			least = one
		}
	}
	return least
}

// WillBeFollowed reports whether the replica of a pod that is gone will be recreated. pods are those of the group that are left.
func WillBeFollowed(sg *trellisv1alpha1.ScalingGroup, gone *corev1.Pod, pods []*corev1.Pod) bool {
	ordinal, _, ok := render.ReplicaOf(gone)
	if !ok {
		return false
	}
	byOrdinal := podsByOrdinal(pods)
	if _, left := byOrdinal[int(ordinal)]; !left {
		byOrdinal[int(ordinal)] = nil
	}
	ordinals, _ := ordinalsOf(sg, byOrdinal, 0) // one that had a pod is never beyond
	return slices.Contains(ordinals, int(ordinal))
}
