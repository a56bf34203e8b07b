// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// requeueAt returns when the gang of a pod is requeued, and why. If the pod can no longer be bound to its host, the time is now. If the pod
// has no problem, requeueAt returns no reason. While the pod waits for preemption victims, the gang is requeued only after the grace period
// of the last victim plus victimsPatience.
func (s *state) requeueAt(o gang.Observation, pod *corev1.Pod, now time.Time) (time.Time, eviction) {
	if why := s.placeLost(pod); why != "" {
		return now, eviction{reason: ReasonPlaceLost, why: why}
	}
	since, why := s.stuckSince(o, pod)
	if why == "" {
		return time.Time{}, eviction{}
	}
	due := since.Add(s.options.RequeueAfter)
	node, victims := s.victimsOf(pod)
	if len(victims) == 0 {
		return due, eviction{reason: s.evictionReason(pod), why: why}
	}
	if last := victims[0].Until.Add(victimsPatience); last.After(due) {
		due = last
	}
	return due, eviction{reason: ReasonVictimsStayed, why: pod.Name + " could not be bound: " + gang.VictimsStayed(node, victims)}
}

// placeLost returns why a released pod can no longer be bound to the host to which it is pinned; "" if no such reason is known. While other
// pods must be preempted for the pod, a lack of capacity does not count.
func (s *state) placeLost(pod *corev1.Pod) string {
	id, host := topology.PodID(pod), gang.PinnedHost(pod)
	if host == "" || !gang.WaitsForScheduler(pod) {
		return ""
	}
	lost, is := s.cluster.LostPlace(pod, host)
	if !is && !s.preempts(id, pod) {
		lost, is = s.cluster.LostCapacity(id, func(other string) bool {
			record := s.pods.byID[other]
			return record != nil && !record.preempting
		})
	}
	if !is {
		return ""
	}
	return fmt.Sprintf("%s could not be bound: its node %s is %s", pod.Name, host, lost.State())
}

// plannedOn returns the pods with a reservation on a node, and the pods that are pinned to the node and no longer have a reservation.
func (s *state) plannedOn(node string) []*corev1.Pod {
	pods := s.cluster.ReservedOn(node)
	for _, r := range s.pods.byID {
		if r.withoutPlace != nil && gang.PinnedHost(r.withoutPlace) == node {
			pods = append(pods, r.withoutPlace)
		}
	}
	return pods
}

// preempts reports whether other pods must be preempted for a released pod, according to its plan. If an earlier operator made the plan,
// the kube-scheduler's nominated node shows this.
func (s *state) preempts(id string, pod *corev1.Pod) bool {
	return s.pods.of(id).preempting || pod.Status.NominatedNodeName != ""
}

// stuckSince returns the time since which a released pod, or the rest of its replica, could not be bound in the planned place, and the
// reason; "" if no such reason is known, or if the scheduler would refuse the pod in every other place too.
func (s *state) stuckSince(o gang.Observation, pod *corev1.Pod) (since time.Time, why string) {
	id := topology.PodID(pod)
	if o.Objections[pod.UID].Anywhere {
		s.pods.restart(id, s.clock.Now())
		return time.Time{}, ""
	}
	record := s.pods.of(id)
	if record.stuck.stands() {
		return record.stuck.since, unbindable(pod, gang.WhyUnschedulable(pod))
	}
	if record.parted.why != "" {
		return record.parted.since, record.parted.why
	}
	return record.objected.since, unbindable(pod, o.Objections[pod.UID].Message)
}

// unbindable returns a sentence with the reason why a pod could not be bound; "" for no reason.
func unbindable(pod *corev1.Pod, why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s could not be bound: %s", pod.Name, why)
}

// evictionReason returns the reason of an eviction: ReasonUnschedulable if the pod is unschedulable or the plan refuses other pods of its
// replica, and gang.CodeSchedulerRefuses if the provider's scheduler objects to the pod.
func (s *state) evictionReason(pod *corev1.Pod) string {
	if record := s.pods.of(topology.PodID(pod)); record.stuck.stands() || record.parted.why != "" {
		return ReasonUnschedulable
	}
	return gang.CodeSchedulerRefuses
}

// toEvict marks the pods of gangs as requeued, and returns the pods that are not evicted yet. Pods that lost their host come first. Pods of
// the base gang, and pods that show the reason for the eviction, come last, so that the next leader can still find the reason. A pod that
// is gone by now takes no capacity and has no state, and toEvict adds no state for it.
func (s *state) toEvict(o gang.Observation, gangs map[string]eviction) (evict []*corev1.Pod) {
	base, turn := gang.BaseGang(o), map[*corev1.Pod]int{}
	for _, pod := range o.Pods {
		id, of := topology.PodID(pod), pod.Annotations[render.AnnotationGang]
		record := s.pods.of(id)
		if gangs[of].why == "" || pod.DeletionTimestamp != nil || record.evicted {
			continue
		}
		if s.pods.byID[id] != nil || len(gang.NodesOf(s.cluster, id)) > 0 {
			s.pods.change(id, func(r *released) {
				r.requeued, r.uncreated, r.follows = true, gangs[of].uncreated, gangs[of].follows && (!r.requeued || r.follows)
			})
		}
		evict = append(evict, pod)
		turn[pod] = 2*bools.Int(of == base) + bools.Int(record.refused())
		if gangs[of].reason == ReasonPlaceLost && s.placeLost(pod) != "" { // the pod may be bound by now, and then its gang stays
			turn[pod] = -1
		}
	}
	slices.SortStableFunc(evict, func(a, b *corev1.Pod) int { return cmp.Compare(turn[a], turn[b]) })
	return evict
}
