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
	s.unbound.setStuck(id, gang.WaitsForScheduler(pod) && gang.WhyUnschedulable(pod) != "", s.options.Clock.Now())
}

// forgiveWhileEmptying restarts the time of pods that are promised the capacity of others (a nominated node) while those are there: when they
// are gone, the kube-scheduler should bind the pods, but may have forgotten them. Called with the lock held.
func (s *Scheduler) forgiveWhileEmptying(pods []*corev1.Pod) {
	for _, pod := range pods {
		node, id := pod.Status.NominatedNodeName, topology.PodID(pod)
		if s.unbound.isStuck(id) && node != "" && s.cluster.Emptying(node) {
			s.unbound.restart(id, s.options.Clock.Now())
		}
	}
}

// requeueStuck deletes every gang that has a pod stuck for too long, bound members included (docs/providers.md#when-a-gang-is-not-bound). Such a gang was never
// whole: a bound pod is never unbound, and the successor of a lost member goes with a gang of its own. A look too early asks for the next one:
// a look at an earlier time, wanted for something else, stands for all that were asked for.
//
// The cache may show evicted pods for a while. Their gang is counted and announced once, however often it is looked at until they are gone.
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	gangs, fresh, name := map[string]eviction{}, map[string]bool{}, client.ObjectKeyFromObject(o.DGD)
	s.mu.Lock()
	s.forgiveWhileEmptying(o.Pods)
	for _, pod := range o.Pods {
		since, why := s.stuckSince(o, pod)
		switch due := since.Add(s.options.RequeueAfter); {
		case why == "":
		case s.options.Clock.Now().Before(due):
			s.queue.addAt(name, due)
		default:
			of := pod.Annotations[graph.AnnotationGang]
			gangs[of] = eviction{reason: s.evictionReason(pod), why: why}
			fresh[of] = fresh[of] || !s.unbound.isRequeued(topology.PodID(pod))
		}
	}
	maps.DeleteFunc(fresh, func(_ string, is bool) bool { return !is })
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

// eviction is why a gang is evicted, for the metrics and in words.
type eviction struct{ reason, why string }

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
