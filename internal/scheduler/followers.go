// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// withFollowers adds all other released gangs of a graph to the evicted gangs, if the base gang is evicted. Otherwise the other gangs would
// keep the graph in a domain without capacity for the base gang. It adds no gangs if the graph can run without the evicted gangs
// ([gang.RunsWithout]), or if the reason is [ReasonElsewhere]. A base gang is evicted only before all of its pods were bound.
func withFollowers(o gang.Observation, gangs map[string]eviction) {
	base := gang.BaseGang(o)
	why, evicted := gangs[base]
	if base == "" || !evicted || why.reason == ReasonElsewhere || gang.RunsWithout(o, func(of string) bool { return gangs[of].why != "" }) {
		return
	}
	for _, pod := range evictable(o.Pods) {
		if of := pod.Annotations[render.AnnotationGang]; gangs[of].why == "" {
			gangs[of] = eviction{reason: why.reason, why: "the base gang of its graph is evicted: " + why.why, follows: true}
		}
	}
}

// evictable returns the released pods of gangs, except for pods that are being deleted or have terminated.
func evictable(pods []*corev1.Pod) (out []*corev1.Pod) {
	for _, pod := range pods {
		if pod.Annotations[render.AnnotationGang] != "" && !render.GateClosed(pod) && !gang.Leaving(pod) {
			out = append(out, pod)
		}
	}
	return out
}

// stillEvicted returns the gangs with released pods whose recorded eviction is not complete, because the deletion of a pod failed or
// because an earlier leader began the eviction. It includes refused gangs, and gangs that follow an evicted base gang and were released
// after the eviction began. It omits recorded evictions that began more than ten times --requeue-after ago. The caller must read o under
// the lock, because stillEvicted adds planned pods.
func (e *evaluation) stillEvicted(o gang.Observation) map[string]eviction {
	gangs := map[string]eviction{}
	for _, of := range e.options.Asks.refusedOf(e.d.graph, o.Record) { // perhaps only its followers have pods
		gangs[of] = eviction{reason: ReasonUnschedulable, why: uncreatable, recorded: true, uncreated: true}
	}
	e.addAllPlanned(&o)
	next, _ := e.followRecord(o, func(string) bool { return false }, e.clock.Now())
	for name, g := range next.Gangs {
		if g.State == trellisv1alpha1.GangEvicting && e.clock.Since(g.Since) < servedPatience*e.options.RequeueAfter {
			gangs[name] = eviction{reason: ReasonUnschedulable, why: g.Message, recorded: true, uncreated: g.Message == uncreatable}
		}
	}
	withFollowers(o, gangs)
	left := map[string]eviction{}
	for _, pod := range evictable(o.Pods) {
		if of := pod.Annotations[render.AnnotationGang]; gangs[of].why != "" {
			left[of] = gangs[of]
		}
	}
	return left
}

// releases reports whether pods of a graph are being released or created in place, and the observation does not show this yet.
func (s *state) releases(o gang.Observation) bool {
	return s.creates(client.ObjectKeyFromObject(o.DGD)) || slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		record := s.pods.of(topology.PodID(pod))
		return record.releasing && !record.failed && render.GateClosed(pod)
	})
}
