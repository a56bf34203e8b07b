// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// liftRest gives the capacity that gated pods have kept, of gangs that are released in part, to the plan that is made now for them.
func (e *evaluation) liftRest(r *gang.Request) {
	for id := range r.Gated {
		e.cluster.Forget(id)
	}
}

// trackParted notes since when the plan has refused the rest of replicas that were never whole: when it stays so, stuckGangs has their
// gang evicted. Without a plan the last one stands: creations of the same graph would otherwise start the time again and again.
func (e *evaluation) trackParted(o gang.Observation) {
	now, refused := e.clock.Now(), false
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		if !e.d.unplanned || e.d.parted[id] != "" {
			e.pods.setParted(id, e.d.parted[id], now)
		}
		refused = refused || e.pods.of(id).parted.why != ""
	}
	if refused {
		e.d.lookAt(now.Add(e.options.RequeueAfter))
	}
}

// begin has pods keep their capacity when their release fails: their gang has begun. Pods that are gone have none.
func (s *state) begin(pods []gang.Release) {
	for _, r := range pods {
		if id := topology.PodID(r.Pod); s.pods.of(id).releasing {
			s.pods.change(id, func(p *released) { p.begun, p.gang = true, r.Pin.Gang })
		}
	}
}

// giveBack ends the reservation of a pod that was not released.
func (s *state) giveBack(id string) {
	s.pods.notReleased(id)
	s.cluster.Forget(id)
}

// endOutdatedReleases ends the reservations of releases at an earlier attempt than the recorded one: another operator has placed their
// replica again.
func (s *state) endOutdatedReleases(o gang.Observation) {
	if o.Record == nil {
		return
	}
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		if r := s.pods.of(id); r.releasing && r.attempt > 0 && r.attempt < o.Record.LowestAttempt(o.KeyOf(pod)) {
			s.giveBack(id)
		}
	}
}

// forsakenGivenBack ends the reservations of gated pods whose gang has lost what was released of it: it does not continue, and its pods are
// planned like others. While a release of the graph is under way the cache does not show what is released.
func (s *state) forsakenGivenBack(pods []*corev1.Pod) {
	released := map[string]bool{}
	for _, pod := range pods {
		if record := s.pods.of(topology.PodID(pod)); record.releasing && !record.begun {
			return
		}
		if !gang.Leaving(pod) && !render.GateClosed(pod) {
			released[pod.Annotations[render.AnnotationGang]] = true
		}
	}
	for _, pod := range pods {
		id := topology.PodID(pod)
		if record := s.pods.of(id); record.begun && !record.releasing && !released[record.gang] {
			s.giveBack(id)
		}
	}
}

// uncount ends what a pod takes of its node, if anything: it has ended, or is gone. Its capacity is held from whichever comes first, and
// only once: when an ended pod is deleted, others may have the capacity.
func (s *state) uncount(pod *corev1.Pod, id string) {
	if len(gang.NodesOf(s.cluster, id)) > 0 {
		s.holdCapacityOf(pod)
	}
	node := ""
	if s.isUnfinished(pod, id) {
		node, _ = s.cluster.Reserved(id)
	}
	s.cluster.DeletePod(id)
	s.resumeHold(client.ObjectKeyFromObject(pod), node)
	s.victimGone(pod)
	s.refused.podLeft(pod)
}

// isUnfinished reports whether a pod that was released or created in place, and never bound, goes because its gang could not be completed.
// Others of its name follow, which get the capacity that was held for them.
func (s *state) isUnfinished(pod *corev1.Pod, id string) bool {
	_, held := s.holds.byPod[client.ObjectKeyFromObject(pod)]
	record := s.pods.of(id)
	if held || pod.Annotations[render.AnnotationGang] == "" || render.GateClosed(pod) || pod.Spec.NodeName != "" ||
		record.requeued && !record.uncreated {
		return false
	}
	_, followed := s.followed(pod)
	return followed && !s.holds.wasPreempted(gang.Of(pod))
}

// resumeHold holds the capacity of a lost pod, which its successor was to be created with, for the rest of its time: the successor is
// created gated, or in place again.
func (s *state) resumeHold(pod types.NamespacedName, node string) {
	if s.holds.resume(s.cluster, pod, node, s.clock.Now()) {
		s.wakeLoop() // it sets its timer by the holds
	}
}

// gone ends all that is known of a pod.
func (s *state) gone(pod *corev1.Pod, id string) {
	if name := client.ObjectKeyFromObject(pod); s.own[name] != nil && s.own[name].UID == pod.UID {
		delete(s.own, name)
	}
	s.uncount(pod, id)
	s.pods.forget(id)
}

// onItsWay reports whether the release of a pod is under way.
func (s *state) onItsWay(pod *corev1.Pod) bool { return s.pods.of(topology.PodID(pod)).releasing }

// mayUse reports whether a waiting graph may be placed after a change of a node. reserved: capacity is held for it, or hosts are reserved.
func (w waiting) mayUse(c *topology.Cluster, reserved bool, node string) bool {
	if reserved || w.unmet == nil {
		return true // it may have more than what is free for everybody
	}
	if w.preemptsBelow > math.MinInt32 && c.AnyBelow(w.preemptsBelow) {
		return true
	}
	return w.unmet.MayFit(c, node)
}
