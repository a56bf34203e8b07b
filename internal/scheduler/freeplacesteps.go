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
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// moveStep is the result of one decision about moves.
type moveStep struct {
	// request, renew and withdraw are the requests to write, to renew and to remove, each for one pod.
	request, renew, withdraw []*moveRequest
	// reserves: hosts are reserved for the graph in the field about. This is recorded before the requests are written.
	reserves bool
	// about is the graph on which the events are reported.
	about  *nvidiav1beta1.DynamoGraphDeployment
	events []event
	wake   wake
	again  time.Duration
}

func (s *moveStep) report(reason, format string, args ...any) {
	s.events = append(s.events, event{reason, fmt.Sprintf(format, args...)})
}

// adoptWithin is the time for which requests and a resumed batch are kept for a graph that is not known to wait, because the graph may not
// have been planned yet.
const adoptWithin = time.Minute

// adoptBatch begins a batch for a graph with the moves that another client has requested.
func (f *placeFreer) adoptBatch(first *moveRequest, movable []gang.Observation, step *moveStep, now time.Time) {
	one := f.refused[first.graph]
	if one == nil {
		if now.Sub(first.seen) >= adoptWithin {
			f.withdraw(step, func(r *moveRequest) bool { return r.graph == first.graph })
		}
		return
	}
	step.about = one.dgd
	f.batch = &moveBatch{graph: first.graph, until: now.Add(f.reserver.lasts), most: first.most}
	found := f.findMoves(one, movable, first.most, now)
	if found.Plan == nil && found.OverLimit > 0 {
		f.endBatch(step, fmt.Sprintf("%d GPUs would restart, and at most %d may", found.OverLimit, f.limit(first.most)), now)
		return
	}
	if f.reserver.isTaken(one) || found.Plan == nil || !slices.ContainsFunc(found.Plan.Moves, func(m repack.Move) bool {
		return slices.ContainsFunc(m.Replica.Pods, func(pod repack.Pod) bool { return f.requests[pod.ID] != nil })
	}) {
		f.endBatch(step, "the replica that was requested to move does not free a place", now)
		return
	}
	f.reserver.reserveFreed(one, found.Plan, now)
	step.reserves = true
	f.batch.moves++
	step.report(EventRepacking, "%s so that it gets %s", f.reserver.current.described(), f.reserver.current.hosts())
	step.wake.now = append(step.wake.now, first.graph)
}

// limit returns the maximum number of GPUs that may restart: the lower of the operator's limit and the requested limit. 0 means no limit.
func (f *placeFreer) limit(requested int64) int64 {
	if f.most == 0 || requested == 0 {
		return max(f.most, requested)
	}
	return min(f.most, requested)
}

// beginBatch looks for moves for the graph whose turn it is.
func (f *placeFreer) beginBatch(movable []gang.Observation, step *moveStep, now time.Time) {
	one := f.next(now)
	if one == nil {
		return
	}
	if f.reserver.isTaken(one) {
		one.retry = now.Add(time.Minute)
		return
	}
	found := f.findMoves(one, movable, 0, now)
	batch := &moveBatch{graph: client.ObjectKeyFromObject(one.dgd)}
	one.retry = now.Add(f.after)
	if next, _ := batch.Next(&found); next != nil {
		step.about = one.dgd
		f.batch = batch
		f.move(one, found.Plan, next, movable, step, now)
	}
}

// continueBatch renews the request of the current move, plans again when the move is done, or ends the batch.
func (f *placeFreer) continueBatch(open []*moveRequest, movable []gang.Observation, step *moveStep, now time.Time) {
	b := f.batch
	one := f.refused[b.graph]
	if one != nil {
		step.about = one.dgd
	}
	f.withdraw(step, func(r *moveRequest) bool { return r.graph != b.graph })
	open = slices.DeleteFunc(open, func(r *moveRequest) bool { return r.graph != b.graph })
	switch {
	case one == nil && !b.placed && now.Before(b.resumed.Add(adoptWithin)): // it is not planned yet
	case one == nil:
		f.endBatch(step, "", now)
	case !f.reserver.has(b.graph):
		f.endBatch(step, "the hosts are not reserved for it any more", now)
	case !now.Before(b.until):
		f.endBatch(step, fmt.Sprintf("a replica has not moved within %s", f.reserver.lasts), now)
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
		f.endBatch(step, "it does not fit although all moves are done", now)
	default:
		f.planNext(one, movable, step, now)
	}
}

// planNext plans again after a move, and requests the next move.
func (f *placeFreer) planNext(one *refusedGraph, movable []gang.Observation, step *moveStep, now time.Time) {
	b := f.batch
	found := f.findMoves(one, movable, b.most, now)
	switch next, ends := b.Next(&found); {
	case ends != "":
		f.endBatch(step, ends, now)
	case next != nil:
		f.move(one, found.Plan, next, movable, step, now)
	default:
		step.wake.now = append(step.wake.now, b.graph)
	}
}

// move reserves the hosts that a plan frees, and requests the plan's next move.
func (f *placeFreer) move(
	one *refusedGraph, plan *repack.Plan, next *repack.Move, movable []gang.Observation, step *moveStep, now time.Time,
) {
	b := f.batch
	f.reserver.reserveFreed(one, plan, now)
	step.reserves = true
	b.until = now.Add(f.reserver.lasts)
	if b.moves++; b.moves == 1 {
		step.report(EventRepacking, "%s so that it gets %s", f.reserver.current.described(), f.reserver.current.hosts())
	}
	for _, pod := range podsOf(next.Replica, movable) {
		request := &moveRequest{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, graph: b.graph, most: b.most, at: now, seen: now}
		f.requests[topology.PodID(pod)] = request
		step.request = append(step.request, request)
	}
	repackMoves.Inc()
	repackGPUs.Add(float64(next.Replica.GPUs()))
	step.wake.now = append(step.wake.now, b.graph)
}

// endBatch ends the current batch. ends is the reason why no further replica moves although the graph has no place; "" if the graph no
// longer waits.
func (f *placeFreer) endBatch(step *moveStep, ends string, now time.Time) {
	b := f.batch
	f.withdraw(step, func(r *moveRequest) bool { return r.graph == b.graph })
	if one := f.refused[b.graph]; one != nil {
		one.retry = now.Add(f.reserver.lasts)
	}
	step.wake.waiting = f.reserver.leave(b.graph, b.placed, now)
	switch {
	case b.placed:
		repackBatches.WithLabelValues(resultPlaced).Inc()
	default:
		repackBatches.WithLabelValues(resultEnded).Inc()
		if ends != "" && step.about != nil {
			step.report(EventRepackEnded, "no further replica moves for it: %s", ends)
		}
	}
	f.batch = nil
}

// withdraw withdraws the open requests that the given function selects.
func (f *placeFreer) withdraw(step *moveStep, which func(*moveRequest) bool) {
	for _, request := range f.open(f.state.clock.Now()) {
		if which(request) {
			request.withdrawn = true
			step.withdraw = append(step.withdraw, request)
		}
	}
}

// findMoves looks for the cheapest moves that free a place for a graph. requested is the requested maximum number of GPUs that restart; 0
// means no limit.
func (f *placeFreer) findMoves(one *refusedGraph, movable []gang.Observation, requested int64, now time.Time) repack.Result {
	f.state.binders.refresh()
	f.state.holds.lift(f.state.cluster, one.dgd.Namespace, one.demand.Components)
	f.reserver.lift()
	f.state.cluster.Begin()
	defer func() {
		f.state.cluster.Rollback()
		f.reserver.restore()
		f.state.holds.restore(f.state.cluster)
	}()
	refused := placement.FirstRefused(f.state.cluster, one.demand, one.planned, placement.Options{})
	if refused == nil {
		return repack.Result{}
	}
	place := repack.Place{Cluster: f.state.cluster, Levels: one.demand.Levels, NodeSelector: one.demand.NodeSelector}
	replicas := f.movable(one, movable, &place, now)
	limits := repack.Limits{MaxGPUs: f.limit(requested), Now: now, Rest: f.rest, InOrder: true}
	return repack.Find(place, repack.Gang{Refused: *refused, Priority: one.demand.Priority}, replicas, limits)
}

// movable returns the replicas that may move for a graph, from the observations of the deployments.
func (f *placeFreer) movable(one *refusedGraph, of []gang.Observation, place *repack.Place, now time.Time) (out []repack.Replica) {
	for i := range of {
		o := &of[i]
		if client.ObjectKeyFromObject(o.DGD) == client.ObjectKeyFromObject(one.dgd) {
			continue
		}
		read := gang.Movable{
			Cluster: f.state.cluster, Priority: topology.PriorityOf, GPUs: gang.GPUsWithoutClaims,
			Admit: func(pod *corev1.Pod) *corev1.Pod {
				stored, _ := o.Admission.Admit(pod)
				return stored
			},
		}
		for _, sg := range o.Groups {
			pods := slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) })
			if sg.Spec.Provider == specs.Gates.Name && !gang.Replacing(sg, pods, now) {
				out = append(out, read.Of(sg, pods, place)...)
			}
		}
	}
	return out
}
