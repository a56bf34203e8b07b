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

// decide plans and reserves what it decides.
func (l *ledger) decide(ctx context.Context, o gang.Observation, asks []asked) decision {
	d := decision{graph: client.ObjectKeyFromObject(o.DGD)}
	l.addPlanned(&o, asks, &d)
	l.takeRecordedRefusals(d.graph, o.Record)
	l.endOutdatedReleases(o)
	l.awaitConstraint(&o, d.graph)
	l.releaseRecorded(&o, &d)
	l.awaitOthers(&o, &d, true)
	l.decideAbout(ctx, &o, &d)
	l.giveBackRecorded(&d)
	l.settleAsks(&d)
	l.findUncreated(o, &d)
	l.record(o, &d)
	return d
}

func (l *ledger) decideAbout(ctx context.Context, of *gang.Observation, d *decision) {
	o := *of
	d.promised = l.promise(&o, d.graph)
	r, failed := l.request(&o, d)
	l.findOverdue(r, d)
	gang.Reserve(l.cluster, o)
	d.result = gang.Result{
		UID: o.DGD.UID, Creating: r.Creating, Wanted: r.Wanted, Placed: r.Placed, Domain: r.Graph.Anchor, Waiting: slices.Concat(r.Blocked,
			r.Refused), Checked: d.promised.withoutPlaces(),
	}
	l.awaitAdmission(r, d)
	l.endRefused(r, failed, d)
	if l.findElsewhere(o, d); len(d.evicted) > 0 {
		return
	}
	if !r.HasWaiting() {
		if r.AllBound() {
			l.backoffs.end(d.graph)
		}
		d.wakeWaiting(l.reserver.leave(d.graph, false, l.clock.Now()))
		l.freer.forget(d.graph, true)
		return
	}
	if code, why := l.pauses(o, failed, d); code != "" {
		l.reserver.pause(d.graph)
		d.result.Waiting = append(d.result.Waiting, r.AllWaiting(code, why)...)
		return
	}
	l.plan(ctx, o, r, d)
}

// request adds what is remembered to what is observed of a graph, and makes the planner's question of it. It returns the failures of its
// releases, too.
func (l *ledger) request(o *gang.Observation, d *decision) (*gang.Request, backoff) {
	l.endIdleReservations(*o, d)
	l.pods.resume(o.Pods)
	l.forsakenGivenBack(o.Pods)
	o.Releasing, o.Idle = l.pods.observed(o.Pods)
	o.Failing = l.failures[d.graph].why()
	o.Preempting, o.NotEnding, o.Avoid = l.preemptingOf(o.Pods), l.notEnding(o.Pods, d), l.avoided.of(d.graph, l.cluster)
	o.Unschedulable = l.unschedulable(o, d)
	o.Refused = l.refusals.of(d.graph, l.clock.Now())
	r := gang.NewRequest(*o)
	return r, l.failureOf(*o, r)
}

// awaitAdmission notes which replicas wait for the scheduling gates of other controllers. Nothing is held for their pods, since the
// controller that admits them decides which pods get the capacity. The exception is a pod that only Kueue's gate holds: a recreated pod
// joins the Workload of the lost one, which has quota, and Kueue removes the gate in a moment. Pods that Kueue evicted have no hold.
func (l *ledger) awaitAdmission(r *gang.Request, d *decision) {
	if len(r.Unadmitted) == 0 {
		return
	}
	wanted, surplus := r.Awaiting()
	d.result.Waiting, d.result.Surplus = append(d.result.Waiting, wanted...), surplus
	held := maps.Clone(r.Held())
	maps.DeleteFunc(held, func(_ string, pod *corev1.Pod) bool {
		return quota.HeldAlone(pod) && !l.holds.byPod[client.ObjectKeyFromObject(pod)].promised
	})
	l.holds.end(l.cluster, held)
}

// pauses explains why nothing of a graph is planned now although something waits; "" when it is planned.
func (l *ledger) pauses(o gang.Observation, failed backoff, d *decision) (code, why string) {
	now := l.clock.Now()
	if o.Bars != "" {
		return gang.CodeProviderNotReady, o.Bars
	}
	if wait, backsOff := l.backoffs.of(d.graph, now); backsOff {
		d.lookAt(wait.until)
		return gang.CodeRequeued, wait.message
	}
	if failed.pauses(now) {
		d.lookAt(failed.until)
		return gang.CodeReleaseRefused, failed.message
	}
	return "", ""
}

// plan runs the planner and turns its answer into releases. A base gang that is not fully created yet is only waited for.
func (l *ledger) plan(ctx context.Context, o gang.Observation, r *gang.Request, d *decision) {
	if o.Unfinished != "" {
		l.awaitCreation(r, nil, d, o.Unfinished)
		return
	}
	l.binders.refresh()
	l.holds.lift(l.cluster, o.DGD.Namespace, r.Graph.Components)
	l.reserver.liftFor(o.DGD, r)
	l.cluster.Begin()
	l.liftRest(r)
	started := l.clock.Now()
	planned := placement.PlanGraph(l.cluster, r.Graph, placement.Options{})
	planSeconds.Observe(l.clock.Since(started).Seconds())
	trial := r.RefusedEverywhere(l.cluster, &planned)
	l.reserver.restore()
	d.waits.preemptsBelow = r.PreemptsBelow()
	if r.WaitsForCreation(&planned) {
		l.cluster.Rollback()
		l.holds.restore(l.cluster)
		l.awaitCreation(r, &planned, d, gang.BeingCreated)
		return
	}
	l.cluster.Commit()
	answer := r.Answer(&planned)
	l.keepRecordable(o, r, &answer)
	asked := r.Asked(&planned)
	d.undecided = map[gang.Key]bool{}
	for _, replica := range answer.Unmade {
		key := gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}
		d.undecided[key] = asked[key] && replica.Refusal == nil
		for _, pod := range replica.Pods {
			l.cluster.Forget(pod.ID)
		}
	}
	maps.Copy(d.parted, r.Parted(answer))
	l.place(ctx, o, r, &planned, d.promised.split(answer.Placed), d)
	l.noteRefusals(r, trial, answer.Waiting, d)
	l.holds.namePreemptors(o.Groups, answer.Waiting, l.clock.Now())
	d.result.Waiting, d.result.Surplus = append(d.result.Waiting, answer.Waiting...), append(d.result.Surplus, answer.Surplus...)
	d.waits.unmet, d.waits.ruled = answer.Unmet, planned.Ruled()
	l.holds.end(l.cluster, r.Planned(&answer))
	l.reservePromised(r, d)
	l.queueForDomain(ctx, o.DGD, r, &planned, capacityFor(trial), d)
	if d.result.Domain == nil && o.Failing == "" {
		d.result.Domain = planned.Domain
	}
	if len(d.releases) > 0 {
		placementScore.Observe(planned.Score)
		logger(ctx, o.DGD).Info("placed", "domain", d.result.Domain.String(), "pods", len(d.releases), "replicas", d.result.Placed,
			"waiting", len(d.result.Waiting))
	}
	slices.SortStableFunc(d.result.Waiting, func(a, b gang.Waiting) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}

// queueForDomain has a graph that was refused wait for a domain to be reserved or freed for it, unless there is capacity for it: then a
// scheduler refuses it, and neither would help.
func (l *ledger) queueForDomain(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, planned *placement.Result,
	hasCapacity bool, d *decision) {
	if hasCapacity {
		l.reserver.pause(d.graph)
		l.freer.forget(d.graph, false)
		return
	}
	l.freer.note(dgd, r, planned, l.clock.Now())
	l.reserver.reserveDomain(ctx, dgd, r, planned, d, l.clock.Now())
}

// awaitCreation has all that waits of a graph wait for pods that are being created. Whether there is capacity is not known.
func (l *ledger) awaitCreation(r *gang.Request, planned *placement.Result, d *decision, why string) {
	l.reserver.pause(d.graph)
	d.undecided = r.Asked(planned)
	d.result.Waiting = append(d.result.Waiting, r.AllWaiting(gang.CodeCreating, why)...)
}

// failureOf returns the failures of a graph, forgotten when nothing of it is to be released any more.
func (l *ledger) failureOf(o gang.Observation, r *gang.Request) backoff {
	name := client.ObjectKeyFromObject(o.DGD)
	if !r.HasWaiting() && !slices.ContainsFunc(o.Pods, l.onItsWay) {
		delete(l.failures, name)
	}
	return l.failures[name]
}

// endRefused has gangs requeued of which a part is released, when the release of the rest has been refused for long: what is bound of them
// would keep its capacity permanently.
func (l *ledger) endRefused(r *gang.Request, failed backoff, d *decision) {
	now := l.clock.Now()
	if !failed.repeated() || now.Sub(failed.since) < servedPatience*l.options.RequeueAfter {
		return
	}
	for _, half := range r.Halves(now.Add(-servedPatience * l.options.RequeueAfter)) {
		d.evict(half, eviction{reason: gang.CodeReleaseRefused, why: failed.message})
	}
}

// findOverdue adds the released pods of a base gang that is not complete in time, for an eviction after --requeue-after: its other replicas
// may never be created, and the released ones would keep their capacity.
func (l *ledger) findOverdue(r *gang.Request, d *decision) {
	patience := servedPatience * l.options.RequeueAfter
	overdue, since := r.Overdue(l.clock.Now().Add(-patience))
	if d.parted = overdue; len(overdue) == 0 && !since.IsZero() {
		d.lookAt(since.Add(patience))
	}
}

// scored is the part of a graph that its score is about: without what is repeatedly not released, or each try would say something new.
func (l *ledger) scored(o gang.Observation) gang.Observation {
	if l.failures[client.ObjectKeyFromObject(o.DGD)].repeated() {
		o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), render.GateClosed)
	}
	return o
}

// noteUncounted adds to a result what is not counted of the devices and the volumes that pods of a graph ask for.
func (l *ledger) noteUncounted(o gang.Observation, r *gang.Result) {
	if l.binders.claims.Unknown() != "" {
		r.Uncounted = gang.UncountedOf(l.cluster, o)
	}
	r.UncountedClaims = gang.WhyUncounted(o, l.binders.claims.Uncounted)
	r.UncountedVolumes = gang.WhyUncounted(o, func(pod *corev1.Pod) string {
		list := l.binders.volumes.Unknown(pod)
		return limit.Join(list, len(list), maxUnknown, ", ")
	})
}

// maxUnknown is how many objects that are not known a message names.
const maxUnknown = 3
