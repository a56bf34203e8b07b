// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Back-off of a graph whose gangs were requeued: doubled each time, from the first to the last.
const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// requeue is the back-off of a graph after a gang was requeued.
type requeue struct {
	until   time.Time
	times   int
	message string
}

// trackStuck notes since when a released pod of ours has been unschedulable. Called with the lock held.
func (s *Scheduler) trackStuck(pod *corev1.Pod, id string) {
	if !waitsForScheduler(pod) || !unschedulable(pod) {
		delete(s.stuck, id)
		return
	}
	if _, known := s.stuck[id]; !known {
		s.stuck[id] = s.options.Clock.Now() // the event that reported it has the graph looked at
	}
}

func unschedulable(pod *corev1.Pod) bool {
	return whyUnschedulable(pod) != ""
}

// whyUnschedulable is what a scheduler says against a pod, whatever its reason; "" when it has said nothing. A closed gate is no scheduler's word.
func whyUnschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return cmp.Or(c.Message, c.Reason, "no reason given")
		}
	}
	return ""
}

// forgiveWhileEmptying restarts the time of pods that are promised the capacity of others (a nominated node) while those are there: when they
// are gone, the kube-scheduler should bind the pods, but may have forgotten them. Called with the lock held.
func (s *Scheduler) forgiveWhileEmptying(pods []*corev1.Pod) {
	for _, pod := range pods {
		node, id := pod.Status.NominatedNodeName, topology.PodID(pod)
		if _, stuck := s.stuck[id]; stuck && node != "" && s.cluster.Emptying(node) {
			s.stuck[id] = s.options.Clock.Now()
		}
	}
}

// requeueStuck deletes every gang that has a pod stuck for too long, bound members included (docs/engines.md#when-a-gang-is-not-bound). Such a gang was never
// whole: a bound pod is never unbound, and the successor of a lost member goes with a gang of its own. A look too early asks for the next one:
// a look at an earlier time, wanted for something else, stands for all that were asked for.
func (s *Scheduler) requeueStuck(ctx context.Context, o observed) bool {
	gangs, reasons, name := map[string]string{}, map[string]string{}, client.ObjectKeyFromObject(o.dgd)
	s.mu.Lock()
	s.forgiveWhileEmptying(o.pods)
	for _, pod := range o.pods {
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
	s.mu.Unlock()
	if len(gangs) == 0 {
		return false
	}
	for gang, why := range gangs {
		s.backOff(name, why)
		gangEvictions.WithLabelValues(reasons[gang]).Inc()
		logger(ctx, o.dgd).Info("evicting and requeueing a gang that cannot be bound", "gang", gang, "why", why)
		s.recorder.Eventf(o.dgd, nil, corev1.EventTypeWarning, CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", gang, why)
	}
	for _, pod := range o.pods {
		if _, ours := gangs[pod.Annotations[graph.AnnotationGang]]; !ours || pod.DeletionTimestamp != nil {
			continue
		}
		if err := s.placerOf(o).Evict(ctx, pod); err != nil {
			logger(ctx, o.dgd).Error(err, "evicting a pod")
			s.queue.addAt(name, s.options.Clock.Now().Add(time.Second))
		}
	}
	return true
}

// evictionReason says who found that a pod cannot be bound. Called with the lock held.
func (s *Scheduler) evictionReason(pod *corev1.Pod) string {
	if _, stuck := s.stuck[topology.PodID(pod)]; stuck {
		return ReasonUnschedulable
	}
	return CodeSchedulerRefuses
}

func (s *Scheduler) backOff(name types.NamespacedName, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backoff[name]
	wait := min(firstBackoff<<min(b.times, 20), lastBackoff)
	s.backoff[name] = requeue{until: s.options.Clock.Now().Add(wait), times: b.times + 1, message: why}
}

// backingOff returns the graph's back-off while it lasts. Called with the lock held.
func (s *Scheduler) backingOff(dgd *nvidiav1beta1.DynamoGraphDeployment) *requeue {
	b, ok := s.backoff[client.ObjectKeyFromObject(dgd)]
	if !ok || !s.options.Clock.Now().Before(b.until) {
		return nil
	}
	return &b
}
