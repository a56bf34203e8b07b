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

// nodeDiffers forgets the refusals that a change of a node may be the end of, and has their graphs evaluated again: for a host any change,
// and for a domain a node that came to it or takes pods that it did not take before. Among many nodes one changes all the time. old is nil
// for a new node, and now for one that is gone.
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

// takesMore reports whether a node may take pods that it did not take before.
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

// podLeft ends the time that a host is left out for other graphs than the pod's own. It comes last from then on: pods that come and go are
// no sign that the scheduler would not refuse the gang again. In a domain they come and go all the time: it is left out until its time is
// over.
func (p *refusedPlaces) podLeft(pod *corev1.Pod) {
	if len(p.places) == 0 || pod.Spec.NodeName == "" {
		return
	}
	p.end(func(graph types.NamespacedName, one *assignment.Refused) bool {
		own := pod.Namespace == graph.Namespace && pod.Labels[render.LabelGraph] == render.LabelValue(graph.Name)
		return !own && one.Place.Host == pod.Spec.NodeName
	}, false)
}

// end ends refusals and has their graphs evaluated again. Those that are not forgotten come last from then on.
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

// takeEnded returns the graphs to look at again, because places may be used again that were left out for them.
func (p *refusedPlaces) takeEnded() []types.NamespacedName {
	graphs := slices.Collect(maps.Keys(p.ended))
	clear(p.ended)
	return graphs
}
