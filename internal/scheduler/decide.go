// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// decide makes the decision about a graph, and reserves the capacity of the pods that the decision releases.
func (e *evaluation) decide(ctx context.Context, o gang.Observation) {
	e.addPlanned(&o)
	e.refused.takeRecorded(e.d.graph, o.Record)
	e.endOutdatedReleases(o)
	e.awaitConstraint(&o)
	e.releaseRecorded(&o)
	e.awaitOthers(&o, true)
	e.decideAbout(ctx, &o)
	e.giveBackRecorded()
	e.settleAsks()
	e.findUncreated(o)
	e.record(o)
}

func (e *evaluation) decideAbout(ctx context.Context, of *gang.Observation) {
	o := *of
	e.d.promised = e.promise(&o)
	r, failed := e.request(&o)
	e.findOverdue(r)
	gang.Reserve(e.cluster, o)
	e.d.result = gang.Result{
		UID: o.DGD.UID, Creating: r.Creating, Wanted: r.Wanted, Placed: r.Placed, Domain: r.Graph.Anchor, Waiting: slices.Concat(r.Blocked,
			r.Refused), Checked: e.d.promised.withoutPlaces(),
	}
	e.awaitAdmission(r)
	e.endRefused(r, failed)
	if e.findElsewhere(o); len(e.d.evicted) > 0 {
		return
	}
	if !r.HasWaiting() {
		if r.AllBound() {
			e.backoffs.end(e.d.graph)
		}
		e.d.wakeWaiting(e.reserver.leave(e.d.graph, false, e.clock.Now()))
		e.freer.forget(e.d.graph, true)
		return
	}
	if code, why := e.pauses(o, failed); code != "" {
		e.reserver.pause(e.d.graph)
		e.d.unplanned = true
		e.d.result.Waiting = append(e.d.result.Waiting, r.AllWaiting(code, why)...)
		return
	}
	e.plan(ctx, o, r)
}

// request adds the state of the ledger to the observation of a graph, and creates the planner's request from the observation. It also
// returns the failures of the graph's releases.
func (e *evaluation) request(o *gang.Observation) (*gang.Request, backoff) {
	e.endIdleReservations(*o)
	e.pods.resume(o.Pods)
	e.forsakenGivenBack(o.Pods)
	o.Releasing, o.Idle = e.pods.observed(o.Pods)
	o.Failing = e.failures[e.d.graph].why()
	o.Preempting, o.NotEnding, o.Avoid = e.preemptingOf(o.Pods), e.notEnding(o.Pods), e.avoided.of(e.d.graph, e.cluster)
	o.Unschedulable = e.unschedulable(o)
	o.Refused = e.refused.places.of(e.d.graph, e.clock.Now())
	r := gang.NewRequest(*o)
	return r, e.failureOf(*o, r)
}

// awaitAdmission adds to the result the replicas that wait until other controllers remove scheduling gates. It ends the capacity holds for
// the pods of these replicas, because the controller that admits the pods chooses which pods get the capacity. Some holds continue: a hold
// for a lost pod continues if only Kueue's gates remain on the pod's successor. The successor joins the Workload of the lost pod, which has
// quota, and Kueue removes the gates soon. Pods that Kueue evicted have no hold.
func (e *evaluation) awaitAdmission(r *gang.Request) {
	if len(r.Unadmitted) == 0 {
		return
	}
	wanted, surplus := r.Awaiting()
	e.d.result.Waiting, e.d.result.Surplus = append(e.d.result.Waiting, wanted...), surplus
	held := maps.Clone(r.Held())
	maps.DeleteFunc(held, func(_ string, pod *corev1.Pod) bool {
		return quota.HeldAlone(pod) && !e.holds.byPod[client.ObjectKeyFromObject(pod)].promised
	})
	e.holds.end(e.cluster, held)
}

// pauses returns why a graph with waiting replicas is not planned now, as a code and a message; "" if it is planned.
func (e *evaluation) pauses(o gang.Observation, failed backoff) (code, why string) {
	now := e.clock.Now()
	if o.Bars != "" {
		return gang.CodeProviderNotReady, o.Bars
	}
	if wait, backsOff := e.backoffs.of(e.d.graph, now); backsOff {
		e.d.lookAt(wait.until)
		return gang.CodeRequeued, wait.message
	}
	if failed.pauses(now) {
		e.d.lookAt(failed.until)
		return gang.CodeReleaseRefused, failed.message
	}
	return "", ""
}

// plan runs the planner and turns its answer into releases. While the pods of a base gang are not all created yet, it releases nothing.
func (e *evaluation) plan(ctx context.Context, o gang.Observation, r *gang.Request) {
	if o.Unfinished != "" {
		e.awaitCreation(r, nil, o.Unfinished)
		return
	}
	e.binders.refresh()
	e.holds.lift(e.cluster, o.DGD.Namespace, r.Graph.Components)
	e.reserver.liftFor(o.DGD, r)
	e.cluster.Begin()
	e.liftRest(r)
	started := e.clock.Now()
	planned := placement.PlanGraph(e.cluster, r.Graph, placement.Options{})
	planSeconds.Observe(e.clock.Since(started).Seconds())
	trial := r.RefusedEverywhere(e.cluster, &planned)
	e.reserver.restore()
	e.d.waits.preemptsBelow = r.PreemptsBelow()
	if r.WaitsForCreation(&planned) {
		e.cluster.Rollback()
		e.holds.restore(e.cluster)
		e.awaitCreation(r, &planned, gang.BeingCreated)
		return
	}
	e.cluster.Commit()
	answer := r.Answer(&planned)
	keepRecordable(o, r, &answer)
	asked := r.Asked(&planned)
	e.d.undecided = map[gang.Key]bool{}
	for _, replica := range answer.Unmade {
		key := gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}
		e.d.undecided[key] = asked[key] && replica.Refusal == nil
		for _, pod := range replica.Pods {
			e.cluster.Forget(pod.ID)
		}
	}
	maps.Copy(e.d.parted, r.Parted(answer))
	e.place(ctx, o, r, &planned, e.d.promised.split(answer.Placed))
	e.refused.note(r, trial, answer.Waiting, e.d)
	e.holds.namePreemptors(o.Groups, answer.Waiting, e.clock.Now())
	e.d.result.Waiting, e.d.result.Surplus = append(e.d.result.Waiting, answer.Waiting...), append(e.d.result.Surplus, answer.Surplus...)
	e.d.waits.unmet, e.d.waits.ruled = answer.Unmet, planned.Ruled()
	e.holds.end(e.cluster, r.Planned(&answer))
	e.reservePromised(r)
	e.queueForDomain(ctx, o.DGD, r, &planned, capacityFor(trial))
	if e.d.result.Domain == nil && o.Failing == "" {
		e.d.result.Domain = planned.Domain
	}
	if len(e.d.releases) > 0 {
		placementScore.Observe(planned.Score)
		logger(ctx, o.DGD).Info("placed", "domain", e.d.result.Domain.String(), "pods", len(e.d.releases), "replicas", e.d.result.Placed,
			"waiting", len(e.d.result.Waiting))
	}
	slices.SortStableFunc(e.d.result.Waiting, func(a, b gang.Waiting) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// queueForDomain queues a graph without capacity, so that hosts of a domain are reserved for the graph or freed by moves of replicas. It
// does not queue a graph with capacity. Such a graph waits because a scheduler refuses its pods, and reserved or freed hosts would not
// help.
func (e *evaluation) queueForDomain(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, planned *placement.Result, hasCapacity bool,
) {
	if hasCapacity {
		e.reserver.pause(e.d.graph)
		e.freer.forget(e.d.graph, false)
		return
	}
	e.freer.note(dgd, r, planned, e.clock.Now())
	e.reserver.reserveDomain(ctx, dgd, r, planned, e.d, e.clock.Now())
}

// awaitCreation adds all waiting replicas of a graph to the result, as waiting for pods that are being created. Nothing is known yet about
// capacity for the replicas.
func (e *evaluation) awaitCreation(r *gang.Request, planned *placement.Result, why string) {
	e.reserver.pause(e.d.graph)
	e.d.unplanned, e.d.undecided = true, r.Asked(planned)
	e.d.result.Waiting = append(e.d.result.Waiting, r.AllWaiting(gang.CodeCreating, why)...)
}

// failureOf returns the failures of a graph's releases. It forgets the failures when the graph has nothing to release any more.
func (e *evaluation) failureOf(o gang.Observation, r *gang.Request) backoff {
	name := client.ObjectKeyFromObject(o.DGD)
	if !r.HasWaiting() && !slices.ContainsFunc(o.Pods, e.onItsWay) {
		delete(e.failures, name)
	}
	return e.failures[name]
}

// endRefused evicts and requeues partly released gangs if the release of their other pods has failed for a long time. Otherwise their bound
// pods would keep their capacity permanently.
func (e *evaluation) endRefused(r *gang.Request, failed backoff) {
	now := e.clock.Now()
	if !failed.repeated() || now.Sub(failed.since) < servedPatience*e.options.RequeueAfter {
		return
	}
	for _, half := range r.Halves(now.Add(-servedPatience * e.options.RequeueAfter)) {
		e.d.evict(half, eviction{reason: gang.CodeReleaseRefused, why: failed.message})
	}
}

// findOverdue marks the released pods of a base gang that is not complete in time, so that their gang is evicted after --requeue-after. The
// missing replicas of the base gang may never be created, and the released pods would keep their capacity.
func (e *evaluation) findOverdue(r *gang.Request) {
	patience := servedPatience * e.options.RequeueAfter
	overdue, since := r.Overdue(e.clock.Now().Add(-patience))
	if e.d.parted = overdue; len(overdue) == 0 && !since.IsZero() {
		e.d.lookAt(since.Add(patience))
	}
}

// scored returns the observation from which the graph's score is computed. If releases of the graph fail repeatedly, it omits the gated
// pods; otherwise each retry would change the score.
func (e *evaluation) scored(o gang.Observation) gang.Observation {
	if e.failures[client.ObjectKeyFromObject(o.DGD)].repeated() {
		o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), render.GateClosed)
	}
	return o
}

// noteUncounted adds to a result the devices and volumes that pods of a graph request but the planner does not count.
func (e *evaluation) noteUncounted(o gang.Observation) {
	r := &e.d.result
	if e.binders.claims.Unknown() != "" {
		r.Uncounted = gang.UncountedOf(e.cluster, o)
	}
	r.UncountedClaims = gang.WhyUncounted(o, e.binders.claims.Uncounted)
	r.UncountedVolumes = gang.WhyUncounted(o, func(pod *corev1.Pod) string {
		list := e.binders.volumes.Unknown(pod)
		return limit.Join(list, len(list), maxUnknown, ", ")
	})
}

// maxUnknown is the maximum number of unknown objects that a message names.
const maxUnknown = 3
