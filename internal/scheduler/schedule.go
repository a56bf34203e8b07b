// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
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

// decision is what a look at a graph comes to.
type decision struct {
	releases []gang.Release
	result   gang.Result
	// waits is what the graph waits for.
	waits waiting
	// evicted are gangs that are evicted and requeued, by name; nothing else is decided then.
	evicted map[string]eviction
	// parted are released pods the rest of whose replica is refused, and why.
	parted map[string]string
}

func (d *decision) evict(gang string, why eviction) {
	if d.evicted == nil {
		d.evicted = map[string]eviction{}
	}
	d.evicted[gang] = why
}

// schedule looks at one graph: evict what cannot bind, plan what waits, release the placed pods, report.
func (s *Scheduler) schedule(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	name := client.ObjectKeyFromObject(dgd)
	o, err := s.observe(ctx, dgd)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	s.askProvider(ctx, &o)
	if s.requeueStuck(ctx, o) {
		s.giveBackRest(o.Pods)
		return // the pods' deletion brings us back
	}
	d, err := s.decideNow(ctx, &o)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	if s.requeue(ctx, o, d.evicted) {
		s.giveBackRest(o.Pods)
		return
	}
	for _, g := range s.gangsOf(o, d.releases) {
		s.release(ctx, g)
	}
	if s.results.set(name, d.result) {
		s.announce(ctx, dgd, o.Pods, d.result)
	}
}

func (s *Scheduler) notRead(ctx context.Context, name types.NamespacedName, err error) {
	log.FromContext(ctx).Error(err, "reading a graph's objects from the cache", "graph", name)
	s.queue.addAt(name, s.options.Clock.Now().Add(retryAfter))
}

// decideNow reads the graph again and decides, both under the lock. The API cache sees every event before the cluster cache does, so
// what is read while the cluster cache stands still is not older than it. An older list would show pods as waiting, or as bound nowhere, that
// the cluster cache has on a node already, and they would be given capacity a second time.
func (s *Scheduler) decideNow(ctx context.Context, o *gang.Observation) (decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.observe(ctx, o.DGD)
	if err != nil {
		return decision{}, err
	}
	now.Bars, now.Objections = o.Bars, o.Objections
	*o = now
	d := s.decide(ctx, now)
	if len(d.evicted) > 0 {
		return d, nil
	}
	s.trackParted(now, d.parted)
	d.result.Score, d.result.Uncounted = gang.Score(s.cluster, s.scored(now)), gang.UncountedOf(s.cluster, now)
	s.followWaits(now, &d.result)
	// Under the same lock, so that no change of the cluster comes in between.
	s.queue.setWaiting(client.ObjectKeyFromObject(o.DGD), len(d.result.Waiting)+len(d.result.Surplus) > 0, d.waits)
	return d, nil
}

// decide plans and reserves what it decides. Called with the lock held.
func (s *Scheduler) decide(ctx context.Context, o gang.Observation) decision {
	name := client.ObjectKeyFromObject(o.DGD)
	s.endIdleReservations(o)
	s.inFlight.resume(o.Pods)
	o.Releasing, o.Idle = s.inFlight.domains, s.idle.ended
	o.Failing = s.failures[name].why()
	o.Preempting, o.NotEnding, o.Avoid = s.preemptingOf(o.Pods), s.notEnding(name, o.Pods), s.avoided.of(name, s.cluster)
	r := gang.NewRequest(o)
	failed := s.failureOf(o, r)
	gang.Reserve(s.cluster, o)
	d := decision{result: gang.Result{
		UID: o.DGD.UID, Creating: r.Creating, Wanted: r.Wanted, Placed: r.Placed, Domain: r.Graph.Anchor, Waiting: slices.Concat(r.Blocked, r.Refused),
	}}
	s.endRefused(name, r, failed, &d)
	if s.findElsewhere(o, &d); len(d.evicted) > 0 {
		return d
	}
	if !r.HasWaiting() {
		if r.AllBound() {
			s.backoffs.end(name)
		}
		s.leaveLine(name, false)
		return d
	}
	if o.Bars != "" {
		delete(s.reserver.line, name)
		d.result.Waiting = append(d.result.Waiting, r.AllWaiting(gang.CodeProviderNotReady, o.Bars)...)
		return d
	}
	if wait, backsOff := s.backoffs.of(name, s.options.Clock.Now()); backsOff {
		delete(s.reserver.line, name)
		d.result.Waiting = append(d.result.Waiting, r.AllWaiting(gang.CodeRequeued, wait.message)...)
		s.queue.addAt(name, wait.until)
		return d
	}
	if failed.pauses(s.options.Clock.Now()) {
		delete(s.reserver.line, name)
		d.result.Waiting = append(d.result.Waiting, r.AllWaiting(gang.CodeReleaseRefused, failed.message)...)
		s.queue.addAt(name, failed.until)
		return d
	}
	s.plan(ctx, o, r, &d)
	return d
}

// plan runs the planner and turns its answer into releases. A base gang that is not fully created yet is only waited for.
func (s *Scheduler) plan(ctx context.Context, o gang.Observation, r *gang.Request, d *decision) {
	s.holds.lift(s.cluster, o.DGD.Namespace, r.Graph.Services)
	s.liftDomainReservation(o.DGD, r)
	s.cluster.Begin()
	s.liftRest(r)
	started := s.options.Clock.Now()
	planned := placement.PlanGraph(s.cluster, r.Graph, placement.Options{})
	planSeconds.Observe(s.options.Clock.Since(started).Seconds())
	s.markCurrent()
	d.waits.preemptsBelow = r.PreemptsBelow()
	if r.WaitsForCreation(&planned) {
		s.cluster.Rollback()
		s.holds.restore(s.cluster)
		delete(s.reserver.line, client.ObjectKeyFromObject(o.DGD)) // whether there is capacity is not known
		d.result.Waiting = append(d.result.Waiting, r.AllWaiting(gang.CodeCreating, gang.BeingCreated)...)
		return
	}
	s.cluster.Commit()
	answer := r.Answer(&planned)
	for _, replica := range answer.Unmade {
		for _, pod := range replica.Pods {
			s.cluster.Forget(pod.ID)
		}
	}
	d.parted = r.Parted(answer)
	s.place(ctx, o, r, &planned, answer.Placed, d)
	d.result.Waiting, d.result.Surplus = append(d.result.Waiting, answer.Waiting...), answer.Surplus
	d.waits.unmet = answer.Unmet
	s.holds.end(s.cluster, r.Planned(&answer))
	s.reserveDomain(ctx, o.DGD, r, &planned, &d.result)
	if d.result.Domain == nil && o.Failing == "" {
		d.result.Domain = planned.Domain
	}
	if len(d.releases) > 0 {
		placementScore.Observe(planned.Score)
		logger(ctx, o.DGD).Info("placed", "domain", d.result.Domain.String(), "pods", len(d.releases), "replicas", d.result.Placed, "waiting", len(d.result.Waiting))
	}
	slices.SortStableFunc(d.result.Waiting, func(a, b gang.Waiting) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// place decides the releases of replicas that the planner has found capacity for, and reports what is remarkable about them.
func (s *Scheduler) place(ctx context.Context, o gang.Observation, r *gang.Request, planned *placement.Result, placed []placement.ReplicaResult, d *decision) {
	base, baseReported := r.BaseName(planned), false
	_, again := s.failures[client.ObjectKeyFromObject(o.DGD)] // what is tried again was reported and measured before
	for _, replica := range placed {
		s.countPlaced(o, r, replica, d)
		if !again {
			s.observePlaced(o, r, replica)
			if p := replica.Preempts; p != nil && (!replica.Base || !baseReported) {
				baseReported = baseReported || replica.Base
				s.reportPreemption(ctx, o.DGD, replica)
			}
			s.reportMove(ctx, o.DGD, r, replica)
		}
		for _, release := range r.Releases(s.cluster, replica, base) {
			s.inFlight.begin(release, s.options.Clock.Now())
			d.releases = append(d.releases, release)
		}
	}
}

// countPlaced counts a replica as placed, or, when releases of its graph fail time and again, as waiting until one works.
func (s *Scheduler) countPlaced(o gang.Observation, r *gang.Request, replica placement.ReplicaResult, d *decision) {
	surplus := r.Surplus(replica.Service, replica.Ordinal)
	switch {
	case replica.Preempts != nil && o.Failing == "" && !surplus:
		d.result.Waiting = append(d.result.Waiting, gang.Waiting{
			Service: replica.Service, Ordinal: replica.Ordinal, Code: gang.CodePreempting, Message: gang.Preempts(replica),
		})
	case o.Failing == "" && !surplus:
		d.result.Placed++
	case o.Failing != "" && !surplus:
		d.result.Waiting = append(d.result.Waiting, gang.Waiting{Service: replica.Service, Ordinal: replica.Ordinal, Code: gang.CodeReleaseRefused, Message: o.Failing})
	}
}

// reportPreemption says who has to free capacity for a replica, or for the base gang it is of.
func (s *Scheduler) reportPreemption(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, replica placement.ReplicaResult) {
	name := "the base gang"
	if !replica.Base {
		name = fmt.Sprintf("%s-%d", replica.Service, replica.Ordinal)
	}
	preemptionsPlanned.Inc()
	who := gang.Victims(replica.Preempts)
	logger(ctx, dgd).Info("preempting", "replica", name, "domain", replica.Domain.String(), "pods", replica.Preempts.Pods, "of", who)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventPreempting, "Place", "%s goes to %s, where pods of lower priority have to free capacity: %d of %s",
		name, gang.OrCluster(replica.Domain), replica.Preempts.Pods, who)
}

// reportMove says that a replica comes back elsewhere, and why.
func (s *Scheduler) reportMove(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, replica placement.ReplicaResult) {
	move := r.Moved(s.cluster, replica)
	if move == "" {
		return
	}
	name := fmt.Sprintf("%s-%d", replica.Service, replica.Ordinal)
	replicasMoved.Inc()
	logger(ctx, dgd).Info("moving a replica as a whole", "replica", name, "move", move)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventMoved, "Place", "%s moves as a whole %s", name, move)
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
