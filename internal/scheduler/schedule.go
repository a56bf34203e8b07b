// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// Reasons of events about where a replica is placed.
const (
	// EventPreempting means that a gang gets capacity which others have to free.
	EventPreempting = "Preempting"
	// EventMoved means that a replica that was lost comes back, whole, in another domain than it had been in.
	EventMoved = "ReplicaMoved"
)

// retryAfter is how long a graph is left alone after something about it failed.
const retryAfter = time.Second

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
		s.writers.release(ctx, g)
	}
	if s.results.set(name, d.result) {
		s.announce(ctx, dgd, o.Pods, d.result)
	}
}

func (s *Scheduler) notRead(ctx context.Context, name types.NamespacedName, err error) {
	log.FromContext(ctx).Error(err, "reading a graph's objects from the cache", "graph", name)
	s.queue.retry(name, s.options.Clock.Now())
}

// decideNow has the ledger decide about a graph, which is read again for that, and reports what it decided. The provider was asked before: its answer
// may take long.
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
			s.queue.setWaiting(name, len(d.result.Waiting)+len(d.result.Surplus) > 0, d.waits)
		}
	})
	if err != nil {
		return d, err
	}
	*o = now
	s.report(o.DGD, d.events)
	return d, nil
}

func (s *Scheduler) report(dgd *nvidiav1beta1.DynamoGraphDeployment, events []event) {
	for _, e := range events {
		s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, e.reason, "Place", "%s", e.note)
	}
}

// announce reports what waits on the pods that wait, since that is where users look; the graph's status says it too.
func (s *Scheduler) announce(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result) {
	first := gang.FirstPods(pods)
	logged := false
	for _, w := range result.Waiting {
		if w.Code == gang.CodeCreating {
			continue
		}
		if !logged {
			logged = true
			logger(ctx, dgd).Info("waiting", "service", w.Service, "replica", w.Ordinal, "reason", w.Code, "message", w.Message, "replicas", len(result.Waiting))
		}
		if pod := first[gang.Key{Service: graph.LabelValue(w.Service), Ordinal: w.Ordinal}]; pod != nil {
			s.recorder.Eventf(pod, dgd, corev1.EventTypeWarning, w.Code, "Place", "%s", w.Message)
		}
	}
}
