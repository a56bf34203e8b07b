// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// requeueAt reports when the gang of a pod is requeued, and why; without a reason when nothing is known against the pod. While others have
// to leave for it, that is not before the last of them had its grace period and victimsPatience.
func (l *ledger) requeueAt(o gang.Observation, pod *corev1.Pod) (time.Time, eviction) {
	since, why := l.stuckSince(o, pod)
	if why == "" {
		return time.Time{}, eviction{}
	}
	due := since.Add(l.options.RequeueAfter)
	node, victims := l.victimsOf(pod)
	if len(victims) == 0 {
		return due, eviction{reason: l.evictionReason(pod), why: why}
	}
	if last := victims[0].Until.Add(victimsPatience); last.After(due) {
		due = last
	}
	return due, eviction{reason: ReasonVictimsStayed, why: pod.Name + " could not be bound: " + gang.VictimsStayed(node, victims)}
}

// stuckSince says since when a released pod, or the rest of its replica, cannot be bound where it is to go, and why; "" when nothing is
// known against it, or nothing that another place would change.
func (l *ledger) stuckSince(o gang.Observation, pod *corev1.Pod) (since time.Time, why string) {
	id := topology.PodID(pod)
	if o.Objections[pod.UID].Anywhere {
		l.pods.restart(id, l.clock.Now())
		return time.Time{}, ""
	}
	record := l.pods.of(id)
	if record.stuck.stands() {
		return record.stuck.since, unbindable(pod, gang.WhyUnschedulable(pod))
	}
	if record.parted.why != "" {
		return record.parted.since, record.parted.why
	}
	return record.objected.since, unbindable(pod, o.Objections[pod.UID].Message)
}

// unbindable is what stands against a pod, in a sentence; "" for nothing.
func unbindable(pod *corev1.Pod, why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s could not be bound: %s", pod.Name, why)
}

// evictionReason reports who found that a pod cannot be bound.
func (l *ledger) evictionReason(pod *corev1.Pod) string {
	if record := l.pods.of(topology.PodID(pod)); record.stuck.stands() || record.parted.why != "" {
		return ReasonUnschedulable
	}
	return gang.CodeSchedulerRefuses
}

// withOtherParts adds the gangs of all pods whose rest finds no capacity. When the first of them is evicted the graph is planned without
// it, and the others would keep the graph where they are.
func (l *ledger) withOtherParts(pods []*corev1.Pod, gangs map[string]eviction) {
	for _, pod := range pods {
		of, why := pod.Annotations[render.AnnotationGang], l.pods.of(topology.PodID(pod)).parted.why
		if _, ours := gangs[of]; !ours && why != "" && !gang.Leaving(pod) {
			gangs[of] = eviction{reason: ReasonUnschedulable, why: why}
		}
	}
}

// neverWhole reports whether the gang of a pod that is stuck was never bound completely.
func (l *ledger) neverWhole(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || l.pods.of(topology.PodID(pod)).parted.why != ""
}

// withFollowers adds all other gangs of a graph whose base gang is evicted before all of it was bound, unless the graph runs without that.
// They would keep the graph in a domain in which the base gang may have no place. It reports whether they are to be evicted.
func withFollowers(o gang.Observation, gangs map[string]eviction, base eviction) bool {
	if gang.RunsWithout(o, func(of string) bool { return gangs[of].why != "" }) {
		return false
	}
	for _, pod := range o.Pods {
		of := pod.Annotations[render.AnnotationGang]
		if _, ours := gangs[of]; !ours && of != "" && !render.GateClosed(pod) && !gang.Leaving(pod) {
			gangs[of] = eviction{reason: base.reason, why: "the base gang of its graph is evicted: " + base.why, follows: true}
		}
	}
	return true
}

// releases reports whether something of a graph is being released, or created in place, that the observation does not show yet.
func (l *ledger) releases(o gang.Observation) bool {
	return l.options.Creations.underWay(client.ObjectKeyFromObject(o.DGD)) || slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		record := l.pods.of(topology.PodID(pod))
		return record.releasing && !record.failed && render.GateClosed(pod)
	})
}

// toEvict notes that the pods of gangs are requeued, and returns those that are not evicted yet: those of a base gang, and those that show
// why, after the others, so that a leader that follows knows why until then. A pod that is gone meanwhile takes no capacity and has no
// record, and none is made for it.
func (l *ledger) toEvict(pods []*corev1.Pod, gangs map[string]eviction) (evict []*corev1.Pod) {
	base, with := gang.BaseGang(pods), &requeuedTogether{since: l.clock.Now()}
	turn := map[*corev1.Pod]int{}
	for _, pod := range pods {
		id, of := topology.PodID(pod), pod.Annotations[render.AnnotationGang]
		why, ours := gangs[of]
		record := l.pods.of(id)
		if !ours || pod.DeletionTimestamp != nil || record.evicted {
			continue
		}
		if l.pods.byID[id] != nil || len(gang.NodesOf(l.cluster, id)) > 0 {
			l.pods.change(id, func(r *released) {
				if !r.requeued || r.requeue.why.follows {
					r.requeued, r.requeue.why = true, why
				}
				if r.requeue.with == nil && (of == base || why.follows || r.parted.why != "") {
					r.requeue.with = with
				}
			})
		}
		evict = append(evict, pod)
		turn[pod] = 2*bools.Int(of == base) + bools.Int(record.refused())
	}
	slices.SortStableFunc(evict, func(a, b *corev1.Pod) int { return cmp.Compare(turn[a], turn[b]) })
	return evict
}

// unevicted returns why a pod is requeued that could not be evicted when its base gang was; false when it is not, or when that was tried
// for long.
func (l *ledger) unevicted(pod *corev1.Pod) (eviction, bool) {
	r := l.pods.of(topology.PodID(pod))
	with := r.requeue.with
	return r.requeue.why, with != nil && with.begun && !r.evicted && l.clock.Since(with.since) < servedPatience*l.options.RequeueAfter
}
