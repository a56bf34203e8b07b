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

// Back-off of a graph whose gangs were requeued: doubled each time, from the first to the last.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// backoffs are the pauses of graphs after a gang of theirs was requeued.
type backoffs map[types.NamespacedName]backoff

// backoff is the pause of one graph.
type backoff struct {
	until   time.Time
	times   int
	message string
}

// begin starts a pause, twice as long as the last one.
func (b backoffs) begin(name types.NamespacedName, why string, now time.Time) {
	last := b[name]
	wait := min(firstBackoff<<min(last.times, 20), lastBackoff)
	b[name] = backoff{until: now.Add(wait), times: last.times + 1, message: why}
}

// of returns the graph's pause while it lasts.
func (b backoffs) of(name types.NamespacedName, now time.Time) (backoff, bool) {
	one, known := b[name]
	return one, known && now.Before(one.until)
}

// times is how often gangs of the graph were requeued in a row.
func (b backoffs) times(name types.NamespacedName) int { return b[name].times }

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
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	gangs, reasons, name := map[string]string{}, map[string]string{}, client.ObjectKeyFromObject(o.DGD)
	s.mu.Lock()
	s.forgiveWhileEmptying(o.Pods)
	for _, pod := range o.Pods {
		since, why := s.stuckSince(o, pod)
		switch due := since.Add(s.options.RequeueAfter); {
		case why == "":
		case s.options.Clock.Now().Before(due):
			s.queue.addAt(name, due)
		default:
			reasons[pod.Annotations[graph.AnnotationGang]] = s.evictionReason(pod)
			gangs[pod.Annotations[graph.AnnotationGang]] = fmt.Sprintf("%s could not be bound: %s", pod.Name, why)
		}
	}
	for _, why := range gangs {
		s.backoffs.begin(name, why, s.options.Clock.Now())
	}
	s.mu.Unlock()
	if len(gangs) == 0 {
		return false
	}
	for evicted, why := range gangs {
		gangEvictions.WithLabelValues(reasons[evicted]).Inc()
		logger(ctx, o.DGD).Info("evicting and requeueing a gang that cannot be bound", "gang", evicted, "why", why)
		s.recorder.Eventf(o.DGD, nil, corev1.EventTypeWarning, gang.CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", evicted, why)
	}
	for _, pod := range o.Pods {
		if _, ours := gangs[pod.Annotations[graph.AnnotationGang]]; !ours || pod.DeletionTimestamp != nil {
			continue
		}
		if err := s.placerOf(o).Evict(ctx, pod); err != nil {
			logger(ctx, o.DGD).Error(err, "evicting a pod")
			s.queue.addAt(name, s.options.Clock.Now().Add(retryAfter))
		}
	}
	return true
}

// evictionReason says who found that a pod cannot be bound. Called with the lock held.
func (s *Scheduler) evictionReason(pod *corev1.Pod) string {
	if s.unbound.isStuck(topology.PodID(pod)) {
		return ReasonUnschedulable
	}
	return gang.CodeSchedulerRefuses
}
