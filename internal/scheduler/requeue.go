// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"
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

// trackStuck notes since when a released pod of ours has been unschedulable. The event that reported it has the graph looked at. Called with the
// lock held.
func (s *Scheduler) trackStuck(pod *corev1.Pod, id string) {
	stuck := gang.WaitsForScheduler(pod) && gang.WhyUnschedulable(pod) != ""
	s.unbound.setStuck(id, stuck, pod.Status.NominatedNodeName, s.options.Clock.Now())
}

// eviction is why a gang is evicted, for the metrics and in words.
type eviction struct{ reason, why string }

// requeueStuck deletes every gang that has a pod stuck for too long, bound members included (docs/providers.md#when-a-gang-is-not-bound). Such a gang was never
// whole: a bound pod is never unbound, and the successor of a lost member goes with a gang of its own. A look too early asks for the next one:
// a look at an earlier time, wanted for something else, stands for all that were asked for.
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	gangs, name := map[string]eviction{}, client.ObjectKeyFromObject(o.DGD)
	s.mu.Lock()
	now := s.options.Clock.Now()
	for _, pod := range o.Pods {
		due, e := s.requeueAt(o, pod)
		switch {
		case e.why == "":
		case now.Before(due): // those that have to leave may do so before
			s.queue.addAt(name, earlier(due, now.Add(s.options.RequeueAfter)))
		default:
			gangs[pod.Annotations[graph.AnnotationGang]] = e
			if e.reason == ReasonVictimsStayed {
				node, _ := s.victimsOf(pod)
				s.avoided.add(name, gang.Of(pod), node)
			}
		}
	}
	s.mu.Unlock()
	return s.requeue(ctx, o, gangs)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// requeueAt says when the gang of a pod is requeued, and why; without a reason when nothing is known against the pod. While others have to leave
// for it, that is not before the last of them had its grace period and victimsPatience. Called with the lock held.
func (s *Scheduler) requeueAt(o gang.Observation, pod *corev1.Pod) (time.Time, eviction) {
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

// requeue evicts gangs, by name, and has their graph planned after a pause. It returns whether there are any.
//
// The cache may show evicted pods for a while. Their gang is counted and announced once, however often it is looked at until they are gone.
func (s *Scheduler) requeue(ctx context.Context, o gang.Observation, gangs map[string]eviction) bool {
	fresh, name := map[string]bool{}, client.ObjectKeyFromObject(o.DGD)
	s.mu.Lock()
	for _, pod := range o.Pods {
		if of := pod.Annotations[graph.AnnotationGang]; gangs[of].why != "" && !s.unbound.isRequeued(topology.PodID(pod)) {
			fresh[of] = true
		}
	}
	announced := slices.Sorted(maps.Keys(fresh))
	if len(announced) > 0 { // one pause, however many gangs are stuck
		s.backoffs.begin(name, gangs[announced[0]].why, s.options.Clock.Now())
	}
	evict := s.toEvict(o.Pods, gangs)
	s.mu.Unlock()
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

// toEvict notes that the pods of gangs are requeued, and returns those that are not evicted yet. Called with the lock held.
func (s *Scheduler) toEvict(pods []*corev1.Pod, gangs map[string]eviction) (evict []*corev1.Pod) {
	for _, pod := range pods {
		if _, ours := gangs[pod.Annotations[graph.AnnotationGang]]; ours && pod.DeletionTimestamp == nil && s.unbound.requeue(topology.PodID(pod)) {
			evict = append(evict, pod)
		}
	}
	return evict
}

// evict has one pod of a requeued gang deleted. What fails is tried again.
func (s *Scheduler) evict(ctx context.Context, o gang.Observation, pod *corev1.Pod) {
	if err := s.placerOf(o).Evict(ctx, pod); err != nil {
		logger(ctx, o.DGD).Error(err, "evicting a pod")
		s.lookAgain(o.DGD)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unbound.requeued[topology.PodID(pod)] = true
}

// evictionReason says who found that a pod cannot be bound. Called with the lock held.
func (s *Scheduler) evictionReason(pod *corev1.Pod) string {
	if s.unbound.isStuck(topology.PodID(pod)) {
		return ReasonUnschedulable
	}
	return gang.CodeSchedulerRefuses
}
