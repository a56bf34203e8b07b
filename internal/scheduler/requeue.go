// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Back-off of a graph whose gangs were requeued: doubled each time, from the first to the last. It begins anew when nothing was requeued for as
// long as the last after a pause: a graph of which a replica waits for ever is never all bound.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// backoffs are the pauses of graphs after a gang of theirs was requeued.
type backoffs map[types.NamespacedName]backoff

// backoff is a pause of one graph, and how many there were in succession.
type backoff struct {
	until   time.Time
	times   int
	message string
	// since is when the first of several failures was; unset for requeued gangs.
	since time.Time
}

// begin starts a pause, twice as long as the last one.
func (b backoffs) begin(name types.NamespacedName, why string, now time.Time) {
	times := b.times(name, now)
	b[name] = backoff{until: now.Add(doubled(firstBackoff, lastBackoff, times)), times: times + 1, message: why}
}

// doubled is the first pause, twice as long for each one before, and at most the last.
func doubled(first, last time.Duration, times int) time.Duration {
	return min(first<<min(times, 20), last)
}

// of returns the graph's pause while it lasts.
func (b backoffs) of(name types.NamespacedName, now time.Time) (backoff, bool) {
	one, known := b[name]
	return one, known && now.Before(one.until)
}

// times is how often gangs of the graph were requeued in a row.
func (b backoffs) times(name types.NamespacedName, now time.Time) int {
	if last := b[name]; now.Sub(last.until) < lastBackoff {
		return last.times
	}
	return 0
}

// end forgets what was before: all of the graph is bound, or it is gone.
func (b backoffs) end(name types.NamespacedName) { delete(b, name) }

// eviction is why a gang is evicted, for the metrics and in words.
type eviction struct{ reason, why string }

// requeueStuck evicts every gang that has a pod stuck for too long, bound members included. Such a gang was never whole: a bound pod is never unbound,
// and the successor of a lost member goes with a gang of its own.
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	gangs, w := s.ledger.stuckGangs(o)
	s.queue.wakeUp(w)
	return s.requeue(ctx, o, gangs)
}

// requeue evicts gangs, by name, and has their graph planned after a pause. It returns whether there are any.
func (s *Scheduler) requeue(ctx context.Context, o gang.Observation, gangs map[string]eviction) bool {
	announced, evict := s.ledger.requeued(o, gangs)
	for _, of := range announced {
		gangEvictions.WithLabelValues(gangs[of].reason).Inc()
		logger(ctx, o.DGD).Info("evicting and requeueing a gang that cannot be bound", "gang", of, "why", gangs[of].why)
		s.recorder.Eventf(o.DGD, nil, corev1.EventTypeWarning, gang.CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", of, gangs[of].why)
	}
	for _, pod := range evict {
		s.evict(ctx, o, pod)
	}
	return len(gangs) > 0
}

// evict has one pod of a requeued gang deleted. What fails is tried again.
func (s *Scheduler) evict(ctx context.Context, o gang.Observation, pod *corev1.Pod) {
	if err := placerOf(s.providers, o).Evict(ctx, pod); err != nil {
		logger(ctx, o.DGD).Error(err, "evicting a pod")
		s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
		return
	}
	s.ledger.evicted(pod)
}

func (l *ledger) stuckOf(o gang.Observation) (gangs map[string]eviction, w wake) {
	gangs, name, now := map[string]eviction{}, client.ObjectKeyFromObject(o.DGD), l.clock.Now()
	for _, pod := range o.Pods {
		due, e := l.requeueAt(o, pod)
		switch {
		case e.why == "":
		case now.Before(due): // those that have to leave may do so before
			w.at(name, earlier(due, now.Add(l.options.RequeueAfter)))
		default:
			gangs[pod.Annotations[graph.AnnotationGang]] = e
			if e.reason == ReasonVictimsStayed {
				node, _ := l.victimsOf(pod)
				l.avoided.add(name, gang.Of(pod), node)
			}
		}
	}
	return gangs, w
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// requeueAt says when the gang of a pod is requeued, and why; without a reason when nothing is known against the pod. While others have to leave
// for it, that is not before the last of them had its grace period and victimsPatience.
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

// stuckSince says since when a released pod, or the rest of its replica, cannot be bound where it is to go, and why; "" when nothing is known against
// it, or nothing that another place would change.
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

// evictionReason says who found that a pod cannot be bound.
func (l *ledger) evictionReason(pod *corev1.Pod) string {
	if record := l.pods.of(topology.PodID(pod)); record.stuck.stands() || record.parted.why != "" {
		return ReasonUnschedulable
	}
	return gang.CodeSchedulerRefuses
}

// toEvict notes that the pods of gangs are requeued, and returns those that are not evicted yet. A pod that is gone meanwhile takes no capacity and has no
// record, and none is made for it.
func (l *ledger) toEvict(pods []*corev1.Pod, gangs map[string]eviction) (evict []*corev1.Pod) {
	for _, pod := range pods {
		id := topology.PodID(pod)
		if _, ours := gangs[pod.Annotations[graph.AnnotationGang]]; !ours || pod.DeletionTimestamp != nil || l.pods.of(id).evicted {
			continue
		}
		if l.pods.byID[id] != nil || len(gang.NodesOf(l.cluster, id)) > 0 {
			l.pods.change(id, func(r *released) { r.requeued = true })
		}
		evict = append(evict, pod)
	}
	return evict
}
