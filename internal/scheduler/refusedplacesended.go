// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// nodeDiffers forgets the refusals that a node change may resolve, and queues their graphs for evaluation. The refusal of a host ends with
// any change of that host. The refusal of a domain ends only when a node joins the domain, or when a node in the domain may accept pods
// that it did not accept before. Other changes do not count, because in a domain with many nodes some node changes all the time. old is nil
// for a new node. now is nil for a node that is gone.
func (p *refusedPlaces) nodeDiffers(old, now *corev1.Node) {
	p.end(func(_ types.NamespacedName, one *assignment.Refused) bool {
		was, is := coversNode(one.Place, old), coversNode(one.Place, now)
		if one.Place.Host != "" {
			return was || is
		}
		return is && (!was || takesMore(old, now))
	}, true)
}

func coversNode(place topology.Refused, node *corev1.Node) bool {
	return node != nil && place.Covers(node.Name, node.Labels)
}

// takesMore reports whether a node may accept pods that it did not accept before.
func takesMore(old, now *corev1.Node) bool {
	if old.Spec.Unschedulable && !now.Spec.Unschedulable || !topology.Ready(old) && topology.Ready(now) {
		return true
	}
	for i := range old.Spec.Taints {
		if !slices.ContainsFunc(now.Spec.Taints, func(t corev1.Taint) bool {
			return t.MatchTaint(&old.Spec.Taints[i]) && t.Value == old.Spec.Taints[i].Value
		}) {
			return true
		}
	}
	for name, amount := range now.Status.Allocatable {
		if had := old.Status.Allocatable[name]; amount.Cmp(had) > 0 {
			return true
		}
	}
	return false
}

// podLeft ends the exclusion of the host that a pod has left, except for the pod's own graph. From then on, plans use the host only if no
// other place has capacity, because the departure of a pod does not show that the scheduler would now accept the gang. An excluded domain
// stays excluded until its time is over, because pods come and go in it all the time.
func (p *refusedPlaces) podLeft(pod *corev1.Pod) {
	if len(p.places) == 0 || pod.Spec.NodeName == "" {
		return
	}
	p.end(func(graph types.NamespacedName, one *assignment.Refused) bool {
		own := pod.Namespace == graph.Namespace && pod.Labels[render.LabelGraph] == render.LabelValue(graph.Name)
		return !own && one.Place.Host == pod.Spec.NodeName
	}, false)
}

// end ends the exclusion of the places for which ends returns true, and queues their graphs for evaluation. If forget is true, it drops
// these refusals. Otherwise, plans use these places only if no other place has capacity.
func (p *refusedPlaces) end(ends func(types.NamespacedName, *assignment.Refused) bool, forget bool) {
	now := p.clock.Now()
	for graph, list := range p.places {
		ended := false
		for i := range list {
			if one := &list[i]; (forget || now.Before(one.Until)) && ends(graph, one) {
				one.Until, ended = earlier(one.Until, now), true
			}
		}
		if !ended {
			continue
		}
		if forget {
			p.places.keep(graph, func(one *assignment.Refused) bool { return !ends(graph, one) })
		}
		p.ended[graph] = true
		p.wakeLoop()
	}
}

// takeEnded returns the graphs for which an exclusion has ended since the last call. They are evaluated again.
func (p *refusedPlaces) takeEnded() []types.NamespacedName {
	graphs := slices.Collect(maps.Keys(p.ended))
	clear(p.ended)
	return graphs
}
