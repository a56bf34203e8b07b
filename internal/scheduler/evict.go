// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// requeueStuck continues recorded evictions, and evicts every gang with a pod that has been stuck for too long, including the gang's bound
// pods. No gang that was fully bound has a stuck pod, because pods stay bound and the successor of a lost pod belongs to a new gang. If
// requeueStuck returns true, the caller does not plan the graph now.
func (s *Scheduler) requeueStuck(ctx context.Context, o gang.Observation) bool {
	now, left, err := s.ledger.continued(o, s.rereading(ctx, o, &recorded{}))
	switch {
	case err != nil:
		s.notRead(ctx, client.ObjectKeyFromObject(o.DGD), err)
		return true
	case len(left) > 0:
		return s.requeue(ctx, now, left)
	}
	gangs, w := s.ledger.stuckGangs(o)
	s.queue.wakeUp(w)
	return s.requeue(ctx, o, gangs)
}

// requeue evicts gangs, by name. Their graph is planned again after a pause. requeue returns false only if gangs is empty.
func (s *Scheduler) requeue(ctx context.Context, o gang.Observation, gangs map[string]eviction) bool {
	announced, evict := s.ledger.requeued(o, gangs)
	for _, of := range announced {
		s.announceEviction(ctx, o.DGD, of, gangs[of])
	}
	if len(evict) > 0 && !s.recordEviction(ctx, o, gangs, evict) {
		return true
	}
	stale, begun := map[string]bool{}, map[string]bool{}
	for _, pod := range evict {
		of := pod.Annotations[render.AnnotationGang]
		if stale[of] && gangs[of].reason == ReasonPlaceLost {
			s.ledger.notEvicted(pod)
			continue
		}
		err := s.evict(ctx, o, pod)
		stale[of] = stale[of] || errors.Is(err, provider.ErrPodChanged)
		begun[of] = begun[of] || err == nil
	}
	s.ledger.keepUnbegun(o, gangs, begun)
	s.ledger.restGivenBack(o.Pods, gangs)
	return len(gangs) > 0
}

// announceEviction counts and reports the eviction of a gang.
func (s *Scheduler) announceEviction(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, of string, e eviction) {
	gangEvictions.WithLabelValues(e.reason).Inc()
	logger(ctx, dgd).Info("evicting and requeueing a gang", "gang", of, "why", e.why)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeWarning, gang.CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", of, e.why)
}

// announceRefused announces the eviction of refused gangs of a graph, including gangs without pods.
func (s *Scheduler) announceRefused(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	for _, of := range s.options.Asks.newlyRefused(client.ObjectKeyFromObject(dgd)) {
		s.announceEviction(ctx, dgd, of, eviction{reason: ReasonNotCreated, why: uncreatable})
	}
}

// evict deletes a pod of a requeued gang, and requeues the graph if the deletion fails. [provider.ErrPodChanged] means that the pod has
// changed since it was read, and may be bound; the event of the change also requeues the graph.
func (s *Scheduler) evict(ctx context.Context, o gang.Observation, pod *corev1.Pod) error {
	err := placerOf(s.providers, o).Evict(ctx, pod)
	switch {
	case errors.Is(err, provider.ErrPodChanged):
		s.ledger.notEvicted(pod)
		s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
	case err != nil:
		logger(ctx, o.DGD).Error(err, "evicting a pod")
		s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
	default:
		s.ledger.evicted(o, pod)
	}
	return err
}

// recordEviction records the eviction of gangs, before their pods are deleted. If the write fails, it requeues the graph and returns false.
func (s *Scheduler) recordEviction(ctx context.Context, o gang.Observation, gangs map[string]eviction, evict []*corev1.Pod) bool {
	if o.Record == nil {
		return true
	}
	var was recorded
	next, err := s.ledger.evictedRecord(client.ObjectKeyFromObject(o.DGD), gangs, s.rereading(ctx, o, &was))
	if err == nil && next != nil {
		err = s.placements.write(ctx, o.DGD, was, next)
	}
	if err == nil {
		return true
	}
	logNotRecorded(ctx, o.DGD, err)
	for _, pod := range evict {
		s.ledger.notEvicted(pod)
	}
	s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
	return false
}
