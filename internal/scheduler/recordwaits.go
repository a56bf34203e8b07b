// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
)

// followWaits updates the waits of a graph from the result of its evaluation, and counts new refusals and requeues. again: this operator
// has evaluated the graph before.
func (e *evaluation) followWaits(o gang.Observation, again bool) {
	name, result := e.d.graph, &e.d.result
	before := e.waits[name]
	if len(result.Waiting) == 0 {
		delete(e.waits, name)
		return
	}
	created, now := createdBy(o.Pods), make(map[gang.Key]wait, len(result.Waiting))
	for _, w := range result.Waiting {
		key := gang.Key{Component: w.Component, Ordinal: w.Ordinal}
		was, known := before[key]
		if !known {
			was.since = e.clock.Now()
		}
		// At the first evaluation by this operator, the gang may already have been waiting.
		if again && requeues(known, was.reason, w.Code) {
			e.countRequeue(&o, key)
		}
		if w.Code != gang.CodeCreating && w.Code != gang.CodeWaitingForAdmission && w.Code != was.reason {
			replicasRefused.WithLabelValues(w.Code).Inc()
		}
		now[key] = was.next(w.Code, created[gang.Key{Component: render.LabelValue(w.Component), Ordinal: w.Ordinal}], e.clock.Now())
	}
	e.waits[name] = now
}

// unbound are the reasons of waiting gangs that are released and not bound.
var unbound = []string{gang.CodeUnschedulable, gang.CodeSchedulerRefuses, gang.CodeSchedulingBlocked, gang.CodePreempting}

// requeues reports whether a gang was requeued between two evaluations. before and now are the gang's reasons to wait at these evaluations.
// known: the gang also waited at the earlier evaluation. A gang whose pods the scheduler refuses counts as requeued only after its
// eviction.
func requeues(known bool, before, now string) bool {
	if !known {
		return now != gang.CodeUnschedulable
	}
	return before == gang.CodeUnschedulable && !slices.Contains(unbound, now)
}

// createdBy returns when the first pod of each replica was created, by component label and ordinal.
func createdBy(pods []*corev1.Pod) map[gang.Key]time.Time {
	created := map[gang.Key]time.Time{}
	for _, pod := range pods {
		ordinal, _, ok := render.ReplicaOf(pod)
		if !ok || gang.Leaving(pod) || pod.CreationTimestamp.IsZero() {
			continue
		}
		key := gang.Key{Component: pod.Labels[render.LabelComponent], Ordinal: int(ordinal)}
		if first, known := created[key]; !known || pod.CreationTimestamp.Time.Before(first) {
			created[key] = pod.CreationTimestamp.Time
		}
	}
	return created
}

// countRequeue counts the requeue of a gang that begins to wait, if the gang was placed before.
func (e *evaluation) countRequeue(o *gang.Observation, key gang.Key) {
	if !o.Record.Ran(key) {
		return
	}
	reason := ReasonReplaced
	if e.holds.wasPreempted(o.NameOf(key)) {
		reason = ReasonPreempted
	} else if e.backoffs.times(client.ObjectKeyFromObject(o.DGD), e.clock.Now()) > 0 {
		reason = ReasonEvicted
	}
	gangRequeues.WithLabelValues(reason).Inc()
}

// observePlaced counts a replica that was just placed, and observes how long it waited.
func (e *evaluation) observePlaced(o gang.Observation, r *gang.Request, replica placement.ReplicaResult) {
	replicasPlaced.Inc()
	now := e.clock.Now()
	was, waited := e.waits[client.ObjectKeyFromObject(o.DGD)][gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}]
	if !waited {
		was.since = now
	}
	since, class := was.from(time.Time{}, now), ""
	for _, planned := range replica.Pods {
		pod := r.Gated[planned.ID]
		if pod == nil {
			continue
		}
		class = pod.Spec.PriorityClassName
		since = earlier(since, was.from(pod.CreationTimestamp.Time, now))
	}
	took := max(0, now.Sub(since)) // a pod was created after now if the clock was set back meanwhile
	timeToPlacement.WithLabelValues(classes.label(class)).Observe(took.Seconds())
}

// observeBound observes how long a released pod took to be bound.
func (s *state) observeBound(id string) {
	if took, known := s.pods.bound(id, s.clock.Now()); known {
		releaseToBound.Observe(took.Seconds())
	}
}
