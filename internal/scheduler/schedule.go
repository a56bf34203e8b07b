// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// schedule looks at one graph: evict what cannot bind, plan what waits, release the placed pods, report.
func (s *Scheduler) schedule(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	name := client.ObjectKeyFromObject(dgd)
	o, err := s.objects.observe(ctx, dgd)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	s.askProvider(ctx, &o)
	if s.requeueStuck(ctx, o) {
		s.ledger.restGivenBack(o.Pods)
		return // the pods' deletion brings us back
	}
	d, err := s.decideNow(ctx, &o)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	if s.requeue(ctx, o, d.evicted) {
		s.ledger.restGivenBack(o.Pods)
		return
	}
	for _, g := range gangsOf(o, d.releases, placerOf(s.providers, o)) {
		g.hosts, g.clear = s.ledger.hostsOf(g.pods), s.options.Clear
		s.writers.release(ctx, g)
	}
	s.answer(ctx, dgd, d)
	if isNew := s.results.set(name, d.result); isNew || len(s.unannounced[name]) > 0 {
		s.announce(ctx, dgd, o.Pods, d.result, isNew)
	}
}

// answer answers the groups that asked for places.
func (s *Scheduler) answer(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, d decision) {
	if creations := s.options.Creations; creations != nil {
		s.writers.offer(ctx, dgd, creations, d.creations, s.options.Clear)
		creations.tellAll(d.answered)
	}
}

func (s *Scheduler) notRead(ctx context.Context, name types.NamespacedName, err error) {
	log.FromContext(ctx).Error(err, "reading a graph's objects from the cache", "graph", name)
	s.queue.retry(name, s.options.Clock.Now())
}

// requeueStuck evicts every gang that has a pod stuck for too long, bound members included. Such a gang was never whole: a bound pod is
// never unbound, and the successor of a lost member goes with a gang of its own.
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
		s.recorder.Eventf(o.DGD, nil, corev1.EventTypeWarning, gang.CodeRequeued, "Requeue", "gang %s is evicted and requeued: %s", of,
			gangs[of].why)
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

// decideNow has the ledger decide about a graph, which is read again for that, and reports what it decided. The provider was asked before:
// its answer may take long.
func (s *Scheduler) decideNow(ctx context.Context, o *gang.Observation) (decision, error) {
	name := client.ObjectKeyFromObject(o.DGD)
	_, again := s.results.Get(name, o.DGD.UID)
	now, d, err := s.ledger.decideNow(ctx, func() (gang.Observation, error) {
		now, err := s.objects.observe(ctx, o.DGD)
		now.Bars, now.Objections = o.Bars, o.Objections
		return now, err
	}, again, func(d *decision) {
		s.queue.wakeUp(d.wake)
		if len(d.evicted) == 0 {
			s.queue.setWaiting(name, !gang.OnlyAdmission(d.result.Waiting) || !gang.OnlyAdmission(d.result.Surplus), d.waits)
		}
	})
	if err != nil {
		return d, err
	}
	*o = now
	s.report(o.DGD, d.events)
	return d, nil
}
