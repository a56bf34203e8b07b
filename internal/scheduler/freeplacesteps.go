// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// moveStep is what is to be done about moves.
type moveStep struct {
	// request are the pods whose replica is to move, renew those whose request is renewed, for a graph; withdraw those whose request ends.
	request, renew, withdraw []*moveRequest
	// about is the graph that events are reported on.
	about  *nvidiav1beta1.DynamoGraphDeployment
	events []event
	wake   wake
	again  time.Duration
}

func (s *moveStep) report(reason, format string, args ...any) {
	s.events = append(s.events, event{reason, fmt.Sprintf(format, args...)})
}

// adoptWithin is how long requests are kept for a graph that is not known to wait: it may not be planned yet.
const adoptWithin = time.Minute

// adoptBatch takes over the moves that were requested for a graph by the operator that led before, or by a user.
func (l *ledger) adoptBatch(first *moveRequest, movable []gang.Observation, step *moveStep, now time.Time) {
	one := l.freer.refused[first.graph]
	if one == nil {
		if now.Sub(first.seen) >= adoptWithin {
			l.withdraw(step, func(r *moveRequest) bool { return r.graph == first.graph })
		}
		return
	}
	step.about = one.dgd
	l.freer.batch = &moveBatch{graph: first.graph, until: now.Add(l.reserver.lasts)}
	found := l.findMoves(one, movable, repack.Limits{Now: now, InOrder: true})
	if l.reserver.isTaken(one) || found.Plan == nil || !slices.ContainsFunc(found.Plan.Moves, func(m repack.Move) bool {
		return slices.ContainsFunc(m.Replica.Pods, func(pod repack.Pod) bool { return l.freer.requests[pod.ID] != nil })
	}) {
		l.endBatch(step, "the replica that was requested to move does not free a place", now)
		return
	}
	l.reserver.reserveFreed(one, found.Plan, now)
	l.freer.batch.moves++
	step.report(EventRepacking, "%s so that it gets %s", described(found.Plan.Cost), l.reserver.current.hosts())
	step.wake.now = append(step.wake.now, first.graph)
}

// beginBatch looks for moves for the graph whose turn it is.
func (l *ledger) beginBatch(movable []gang.Observation, step *moveStep, now time.Time) {
	one := l.freer.next(now)
	if one == nil {
		return
	}
	if l.reserver.isTaken(one) {
		one.retry = now.Add(time.Minute)
		return
	}
	limits := repack.Limits{MaxGPUs: l.freer.most, Now: now, InOrder: true}
	found := l.findMoves(one, movable, limits)
	batch := &moveBatch{graph: client.ObjectKeyFromObject(one.dgd), most: l.freer.most}
	one.retry = now.Add(l.freer.after)
	if next, _ := batch.Next(&found); next != nil {
		step.about = one.dgd
		l.freer.batch = batch
		l.move(one, found.Plan, next, movable, step, now)
	}
}

// continueBatch renews the request of the move that is under way, plans again when it is done, or ends the batch.
func (l *ledger) continueBatch(open []*moveRequest, movable []gang.Observation, step *moveStep, now time.Time) {
	b := l.freer.batch
	one := l.freer.refused[b.graph]
	if one != nil {
		step.about = one.dgd
	}
	l.withdraw(step, func(r *moveRequest) bool { return r.graph != b.graph })
	open = slices.DeleteFunc(open, func(r *moveRequest) bool { return r.graph != b.graph })
	switch {
	case one == nil:
		l.endBatch(step, "", now)
	case !l.reserver.has(b.graph):
		l.endBatch(step, "the hosts are not reserved for it any more", now)
	case !now.Before(b.until):
		l.endBatch(step, fmt.Sprintf("a replica has not moved within %s", l.reserver.lasts), now)
	case len(open) > 0:
		for _, request := range open {
			if now.Sub(request.at) >= renewAfter {
				request.at = now
				step.renew = append(step.renew, request)
			}
		}
	case b.Done() && b.since.IsZero():
		b.since = now
		step.wake.now = append(step.wake.now, b.graph)
	case b.Done():
		l.endBatch(step, "it does not fit although all moves are done", now)
	default:
		l.planNext(one, movable, step, now)
	}
}

// planNext plans again after a move.
func (l *ledger) planNext(one *refusedGraph, movable []gang.Observation, step *moveStep, now time.Time) {
	b := l.freer.batch
	found := l.findMoves(one, movable, repack.Limits{MaxGPUs: b.most, Now: now, InOrder: true})
	switch next, ends := b.Next(&found); {
	case ends != "":
		l.endBatch(step, ends, now)
	case next != nil:
		l.move(one, found.Plan, next, movable, step, now)
	default:
		step.wake.now = append(step.wake.now, b.graph)
	}
}

// move reserves the hosts that a plan frees, and requests its next move.
func (l *ledger) move(one *refusedGraph, plan *repack.Plan, next *repack.Move, movable []gang.Observation, step *moveStep, now time.Time) {
	b := l.freer.batch
	l.reserver.reserveFreed(one, plan, now)
	b.until = now.Add(l.reserver.lasts)
	if b.moves++; b.moves == 1 {
		step.report(EventRepacking, "%s so that it gets %s", described(plan.Cost), l.reserver.current.hosts())
	}
	for _, pod := range podsOf(next.Replica, movable) {
		request := &moveRequest{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, graph: b.graph, at: now, seen: now}
		l.freer.requests[topology.PodID(pod)] = request
		step.request = append(step.request, request)
	}
	repackMoves.Inc()
	repackGPUs.Add(float64(next.Replica.GPUs()))
	step.wake.now = append(step.wake.now, b.graph)
}

// endBatch ends the moves for a graph. ends is why, if it has no place.
func (l *ledger) endBatch(step *moveStep, ends string, now time.Time) {
	b := l.freer.batch
	l.withdraw(step, func(r *moveRequest) bool { return r.graph == b.graph })
	if one := l.freer.refused[b.graph]; one != nil {
		one.retry = now.Add(l.reserver.lasts)
	}
	step.wake.waiting = l.reserver.leave(b.graph, b.placed, now)
	switch {
	case b.placed:
		repackBatches.WithLabelValues(resultPlaced).Inc()
	default:
		repackBatches.WithLabelValues(resultEnded).Inc()
		if ends != "" && step.about != nil {
			step.report(EventRepackEnded, "no further replica moves for it: %s", ends)
		}
	}
	l.freer.batch = nil
}

// withdraw ends requests.
func (l *ledger) withdraw(step *moveStep, which func(*moveRequest) bool) {
	for _, request := range l.freer.open(l.clock.Now()) {
		if which(request) {
			request.withdrawn = true
			step.withdraw = append(step.withdraw, request)
		}
	}
}

// findMoves looks for the cheapest moves that free a place for a graph.
func (l *ledger) findMoves(one *refusedGraph, movable []gang.Observation, limits repack.Limits) repack.Result {
	l.binders.refresh()
	l.holds.lift(l.cluster, one.dgd.Namespace, one.demand.Components)
	l.reserver.lift()
	l.cluster.Begin()
	defer func() {
		l.cluster.Rollback()
		l.reserver.restore()
		l.holds.restore(l.cluster)
	}()
	refused := placement.FirstRefused(l.cluster, one.demand, one.planned, placement.Options{})
	if refused == nil {
		return repack.Result{}
	}
	place := repack.Place{Cluster: l.cluster, Levels: one.demand.Levels, NodeSelector: one.demand.NodeSelector}
	replicas := l.movable(one, movable, &place)
	limits.Rest = l.freer.rest
	return repack.Find(place, repack.Gang{Refused: *refused, Priority: one.demand.Priority}, replicas, limits)
}

// movable are the replicas that may move for a graph.
func (l *ledger) movable(one *refusedGraph, of []gang.Observation, place *repack.Place) (out []repack.Replica) {
	for i := range of {
		o := &of[i]
		if client.ObjectKeyFromObject(o.DGD) == client.ObjectKeyFromObject(one.dgd) {
			continue
		}
		read := gang.Movable{
			Cluster: l.cluster, Priority: topology.PriorityOf, GPUs: gpusOf,
			Admit: func(pod *corev1.Pod) *corev1.Pod {
				stored, _ := o.Admission.Admit(pod)
				return stored
			},
		}
		for _, sg := range o.Groups {
			pods := slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) })
			busy := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return render.Outdated(sg, pod) || isEvicted(pod) })
			if sg.Spec.Provider == specs.Gates.Name && !busy {
				out = append(out, read.Of(sg, pods, place)...)
			}
		}
	}
	return out
}

// gpusOf counts the GPUs of a pod. Those of claims cannot be counted, and their devices would not count as free.
func gpusOf(pod *corev1.Pod) (int64, bool) {
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &pod.Spec, Count: 1}}, gpus.Devices{})
	return shape.PerReplica, err == nil && len(pod.Spec.ResourceClaims) == 0
}

// isEvicted reports whether a pod was requested to go for another reason than a place for others.
func isEvicted(pod *corev1.Pod) bool {
	request, requested := leaving.EvictionOf(pod)
	return requested && request.For == ""
}
