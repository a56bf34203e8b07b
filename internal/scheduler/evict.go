// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// requeueStuck evicts every gang that has a pod stuck for too long, bound members included. Such a gang was never whole: a bound pod is
// never unbound, and the successor of a lost member goes with a gang of its own.
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	gangs, w := s.ledger.stuckGangs(o)
	s.queue.wakeUp(w)
	return s.requeue(ctx, o, gangs)
}

// requeue evicts gangs, by name, and has their graph planned after a pause. It returns whether there are any.
func (s *Scheduler) requeue(ctx context.Context, o gang.Observation, gangs map[string]eviction) bool {
	announced, evict, last := s.ledger.requeued(o, gangs)
	for _, of := range announced {
		gangEvictions.WithLabelValues(gangs[of].reason).Inc()
		logger(ctx, o.DGD).Info("evicting and requeueing a gang that cannot be bound", "gang", of, "why", gangs[of].why)
		s.recorder.Eventf(o.DGD, nil, corev1.EventTypeWarning, gang.CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", of,
			gangs[of].why)
	}
	if s.evictAll(ctx, o, evict) {
		s.evictAll(ctx, o, last)
	}
	s.ledger.restGivenBack(o.Pods, gangs)
	return len(gangs) > 0
}

// evictAll has pods of requeued gangs deleted. It returns whether that has begun for all of them; what fails is tried again.
func (s *Scheduler) evictAll(ctx context.Context, o gang.Observation, pods []*corev1.Pod) bool {
	all := true
	for _, pod := range pods {
		if err := placerOf(s.providers, o).Evict(ctx, pod); err != nil {
			logger(ctx, o.DGD).Error(err, "evicting a pod")
			s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
			all = false
			continue
		}
		s.ledger.evicted(pod)
	}
	return all
}
