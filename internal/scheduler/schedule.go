// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// schedule evaluates one graph: it evicts gangs that cannot be bound, plans the waiting gangs, releases the placed pods, and publishes the
// result.
func (s *Scheduler) schedule(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	name := client.ObjectKeyFromObject(dgd)
	if s.ledger.isDeciding(name) {
		return // the graph is evaluated again when that ends
	}
	o, _, err := s.observe(ctx, dgd)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	s.askProvider(ctx, &o)
	s.announceRefused(ctx, dgd)
	if s.requeueStuck(ctx, o) {
		return // the deletion of the pods has the graph evaluated again
	}
	d, err := s.decideNow(ctx, &o)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	if s.requeue(ctx, o, d.evicted) {
		return
	}
	gangs := gangsOf(o, d.releases, placerOf(s.providers, o))
	for _, g := range gangs {
		g.hosts = s.ledger.hostsOf(g.pods)
	}
	s.writers.carryOut(ctx, dgd, gangs, &d)
	s.publish(ctx, dgd, o.Pods, d.result)
}

// decideNow calls the ledger, which reads a graph again and makes a decision about it, and reports the decision.
func (s *Scheduler) decideNow(ctx context.Context, o *gang.Observation) (decision, error) {
	name := client.ObjectKeyFromObject(o.DGD)
	_, again := s.results.Get(name, o.DGD.UID)
	var was recorded
	now, d, err := s.ledger.decideNow(ctx, name, s.rereading(ctx, *o, &was), again, func(d *decision) {
		d.recorded = was
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
	for of := range d.overdue {
		logger(ctx, o.DGD).Info("the pods of a gang are not created in time; it is created gated", "gang", of)
		members, base := o.Record.Members(of)
		s.options.Asks.refuse(name, of, members, base)
	}
	return d, nil
}

// MayRefresh reports whether the scaling groups of a graph may be updated to the levels of another constraint (to). They may if no pod of
// the graph is released or being released. In this case, no pod is released until all groups of the graph have these levels. Otherwise pods
// would be placed by two versions of a topology, in different domains. If to is nil, MayRefresh ends an unwanted refresh.
func (s *Scheduler) MayRefresh(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, to *trellisv1alpha1.ResolvedTopology) bool {
	name := client.ObjectKeyFromObject(dgd)
	may, err := s.ledger.mayRefresh(name, to, func() (gang.Observation, error) { return s.objects.observe(ctx, dgd) })
	if err != nil {
		s.notRead(ctx, name, err)
	}
	return may
}
