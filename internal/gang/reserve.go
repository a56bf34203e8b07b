// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Reserve reserves capacity for the graph's released, unbound pods without a reservation, on the hosts to which they are pinned. Some pods
// are pinned only by labels, for example by an earlier version of the operator. For these pods, Reserve looks for capacity anywhere in
// their domain, as their scheduler does. Idle pods ([Observation].Idle) get no reservation.
func Reserve(c *topology.Cluster, o Observation) {
	byGroup := podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		place := placeOf(sg)
		for path, pods := range unreserved(c, o, place.Levels, byGroup[string(sg.UID)]) {
			reserve(c, sg, place, topology.ParsePath(path), pods)
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

// placeOf returns the topology in which a group's pods are placed, as frozen when the graph was admitted.
func placeOf(sg *trellisv1alpha1.ScalingGroup) placement.Place {
	if t := sg.Spec.Topology; t != nil {
		return placement.Place{Levels: LevelsOf(t), NodeSelector: t.NodeSelector}
	}
	return placement.Place{}
}

func reserve(c *topology.Cluster, sg *trellisv1alpha1.ScalingGroup, place placement.Place, path topology.Path, pods []*corev1.Pod) {
	var free []placement.Pod
	for _, pod := range pods {
		id := topology.PodID(pod)
		if host := PinnedHost(pod); host != "" {
			c.AssumePinned(id, host, topology.ShapeOf(pod), pod.Spec.NodeSelector)
			continue
		}
		free = append(free, placement.Pod{ID: id, Name: pod.Name, Shape: topology.ShapeOf(regated(sg, pod))})
	}
	if len(free) == 0 {
		return
	}
	if _, ok := placement.Locate(c, path, place, free); !ok {
		for _, pod := range free { // not all fit any more: reserve for those that do; the rest will be requeued
			placement.Locate(c, path, place, []placement.Pod{pod})
		}
	}
	for _, pod := range free {
		c.Loosen(pod.ID)
	}
}

// ReserveRest reserves capacity for the gated pods of partly released gangs, for example after a restart in the middle of a release.
// Otherwise another gang could take this capacity before the pods are planned. ReserveRest returns the name of each pod's gang, by pod ID.
func ReserveRest(c *topology.Cluster, o Observation) map[string]string {
	r := NewRequest(o)
	rest := map[string]string{}
	for i := range r.Graph.Components {
		component := &r.Graph.Components[i]
		for _, replica := range component.Waiting {
			key := Key{Component: component.Name, Ordinal: replica.Ordinal}
			_, half := r.halves[key]
			base := r.rests[key]
			if !half && base.gang == "" {
				continue
			}
			exist := slices.DeleteFunc(slices.Clone(replica.Pods), func(pod placement.Pod) bool { return r.Gated[pod.ID] == nil })
			if len(exist) == 0 {
				continue
			}
			for _, pod := range exist {
				rest[pod.ID] = cmp.Or(base.gang, r.gangs[key])
			}
			g := placement.Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Within: replica.Anchor}
			g.Apart, g.On = component.Apart, replica.On
			switch {
			case half:
			case len(component.Anchor) > 0: // single-node replicas share their domain
				g.Within = component.Anchor
			default:
				g.Required, g.Within = component.Required, r.Graph.Anchor
			}
			reserveRest(c, r.Graph.PlaceOf(component.Name), g, exist)
		}
	}
	return rest
}

// reserveRest reserves capacity for all pods of a replica or, if they do not all fit, for each pod that fits.
func reserveRest(c *topology.Cluster, place placement.Place, g placement.Group, pods []placement.Pod) {
	for _, some := range append([][]placement.Pod{pods}, slices.Collect(slices.Chunk(pods, 1))...) {
		g.Pods = some
		_, refusal := placement.PlanGroup(c, place.Levels, place.NodeSelector, &g, placement.Options{})
		if refusal == nil && len(some) == len(pods) {
			return
		}
	}
}
