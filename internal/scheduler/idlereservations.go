// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// notReserved is the end of a message about a pod whose reservation has ended.
const notReserved = ", so its capacity is not reserved any more"

// endIdleReservations ends the reservations of released pods that no scheduler tries to bind, so that the reservations do not block other
// pods permanently. For example, no scheduler has the name in the pod's spec, or the pod has a scheduling gate that is not Trellis'. A
// reservation ends only after a while. If there is capacity, the reservation is made again when the gates or the nominated node of the pod
// change. If a scheduler then finds no capacity for the pod, the pod's gang is evicted.
func (e *evaluation) endIdleReservations(o gang.Observation) {
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		why, again := e.refusedAnywhere(id, o.Objections[pod.UID])
		if why == "" && again.IsZero() {
			why, again = e.notTried(pod, id)
		}
		if !again.IsZero() {
			e.d.lookAt(again)
		}
		if why == "" || e.pods.of(id).unreserved != "" {
			continue
		}
		e.pods.change(id, func(r *released) { r.unreserved, r.withoutPlace, r.preempting = why, pod, false })
		e.cluster.Forget(id)
	}
}

// refusedAnywhere records whether the provider's scheduler would refuse a released pod in every place, for example because of a quota. The
// reservation of such a pod also ends after a while, and is made again when the scheduler withdraws its objection. refusedAnywhere returns
// why the reservation ends now, or else when to check again; zero values if there is no such objection.
func (s *state) refusedAnywhere(id string, o gang.Objection) (why string, again time.Time) {
	now, since := s.clock.Now(), s.pods.of(id).anywhere
	switch {
	case !o.Anywhere && !since.IsZero():
		s.pods.change(id, func(r *released) { r.consented(now) })
		return "", time.Time{}
	case !o.Anywhere:
		return "", time.Time{}
	case since.IsZero():
		since = now
		s.pods.change(id, func(r *released) { r.anywhere = now })
	}
	if due := since.Add(s.options.RequeueAfter * servedPatience); now.Before(due) {
		return "", due
	}
	return o.Message + notReserved, time.Time{}
}

// notTried returns why the reservation of a pod that no scheduler tries to bind ends now, or else when to check again; the zero time if the
// pod is not idle.
func (s *state) notTried(pod *corev1.Pod, id string) (why string, again time.Time) {
	since := s.pods.of(id).idle.since
	if since.IsZero() {
		return "", time.Time{}
	}
	patience, name := s.options.RequeueAfter, schedulerOf(pod)
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		why = fmt.Sprintf("pod %s has the scheduling gate %q, which is not Trellis'", pod.Name, pod.Spec.SchedulingGates[0].Name)
	case s.served.has(name):
		patience *= servedPatience
		why = fmt.Sprintf("the scheduler %q has not tried to bind pod %s for %s", name, pod.Name, patience)
	default:
		why = fmt.Sprintf("no scheduler with the name %q has tried to bind pod %s", name, pod.Name)
	}
	if due := since.Add(patience); s.clock.Now().Before(due) {
		return "", due
	}
	return why + notReserved, time.Time{}
}
