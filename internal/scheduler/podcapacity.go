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

// liftRest frees the capacity that gated pods of partly released gangs have kept, so that the current plan can use it for these pods.
func (e *evaluation) liftRest(r *gang.Request) {
	for id := range r.Gated {
		e.cluster.Forget(id)
	}
}

// trackParted records, for each placed pod of an incomplete replica or base gang, since when plans refuse the other pods of the gang.
// If the refusal lasts, stuckGangs lists the gang for eviction. The recorded time stays while no plan is made: otherwise each creation of a
// pod in the graph would restart it.
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

// begin marks pods of a gang whose first pod has been released, so that they keep their capacity if their release fails. It ignores pods
// that are gone, because they have no capacity.
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

// endOutdatedReleases ends the reservations of releases whose attempt is earlier than the recorded attempt, because another operator has
// placed their replica again.
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

// forsakenGivenBack ends the reservations of gated pods whose gang has lost all of its released pods. The gang does not continue, and its
// pods are planned like the pods of a new gang. forsakenGivenBack does nothing while a release of the graph is under way, since the cache
// may still show the pods as gated.
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

// uncount removes a terminated or deleted pod from the counted pods of its node. It holds the capacity for the pod's successor when the pod
// terminates, or when the pod is deleted without having terminated. It does not hold the capacity a second time when a terminated pod is
// deleted, because other pods may already have the capacity.
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

// isUnfinished reports whether a released or created pod is removed before it is bound, because its gang could not be completed. If so, its
// successor with the same name gets the capacity that was held for the pod.
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

// resumeHold holds the capacity of a lost pod again, for the rest of the hold's time, if a plan had given the capacity to the pod's
// successor. The successor is now created gated, or in place again.
func (s *state) resumeHold(pod types.NamespacedName, node string) {
	if s.holds.resume(s.cluster, pod, node, s.clock.Now()) {
		s.wakeLoop() // the loop sets its timer by the holds
	}
}

// gone removes all state of a pod.
func (s *state) gone(pod *corev1.Pod, id string) {
	if name := client.ObjectKeyFromObject(pod); s.own[name] != nil && s.own[name].UID == pod.UID {
		delete(s.own, name)
	}
	s.uncount(pod, id)
	s.pods.forget(id)
}

// onItsWay reports whether the release of a pod is under way.
func (s *state) onItsWay(pod *corev1.Pod) bool { return s.pods.of(topology.PodID(pod)).releasing }

// mayUse reports whether a waiting graph may be placed after a change of a node. reserved: capacity is held for the graph, or hosts are
// reserved.
func (w waiting) mayUse(c *topology.Cluster, reserved bool, node string) bool {
	if reserved || w.unmet == nil {
		return true // the graph may use more than the capacity that is free for all
	}
	if w.preemptsBelow > math.MinInt32 && c.AnyBelow(w.preemptsBelow) {
		return true
	}
	return w.unmet.MayFit(c, node)
}
