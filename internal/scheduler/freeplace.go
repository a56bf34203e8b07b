// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Trellis moves running replicas to free a place for a waiting gang (package repack). The cluster has one batch of moves at a time, and a
// batch moves one replica at a time. The freed hosts are reserved for the gang. A pod annotation requests a move, and the scalinggroup
// controller moves the replica. Before the first request, the hosts are recorded in the GraphPlacement of the waiting deployment, so that a
// new leader continues the batch from there. Other clients that write the annotation, such as kubectl trellis repack, also begin a batch. A
// request that is not renewed expires.

// placeFreer is the ledger's state of the moves that free places.
type placeFreer struct {
	// after is the time that a graph waits before the operator looks for moves for it; 0 disables these moves. most limits the GPUs that
	// restart in one batch; 0: no limit.
	after time.Duration
	most  int64
	// rest is the time for which a moved replica does not move again.
	rest time.Duration
	// refused are the graphs with a gang for which there is no capacity.
	refused map[types.NamespacedName]*refusedGraph
	// requests are the requested moves, by pod ID.
	requests map[string]*moveRequest
	// batch is the current batch; nil for none.
	batch *moveBatch

	state    *state
	reserver *domainReserver
}

// refusedGraph is a graph whose last plan had no capacity for one of the graph's gangs.
type refusedGraph struct {
	dgd *nvidiav1beta1.DynamoGraphDeployment
	// since is the time of the first plan without capacity for a gang of the graph. retry is the earliest time to look for moves again.
	since, retry time.Time
	demand       placement.Demand
	planned      *placement.Result
}

// moveRequest requests the move of a pod's replica, so that a deployment gets a place.
type moveRequest struct {
	pod   types.NamespacedName
	uid   types.UID
	graph types.NamespacedName
	// most is the maximum number of GPUs that may restart for the graph, according to the request; 0: no limit.
	most int64
	// at is the time of the request or of its last renewal. seen is the time at which this operator first saw the request.
	at, seen time.Time
	// stored: the pod has the annotation in the cache. withdrawn: the annotation is being removed.
	stored, withdrawn bool
}

// moveBatch has the moves for one graph.
type moveBatch struct {
	graph types.NamespacedName
	repack.Batch
	// most is the maximum number of GPUs that may restart, according to the request that began the batch; 0: no limit.
	most int64
	// until is the deadline of the current move.
	until time.Time
	moves int
	// since is the time at which the batch had no more moves to make; zero before that.
	since time.Time
	// placed is true once the graph is placed.
	placed bool
	// resumed is the time at which this operator continued the batch of an earlier leader; zero for a batch that this operator began.
	resumed time.Time
}

// placedWithin is the time within which a graph must take the place that moves have freed.
const placedWithin = time.Minute

func newPlaceFreer(o Options, s *state, r *domainReserver) placeFreer {
	return placeFreer{
		state: s, reserver: r,
		after: max(o.RepackAfter, 0), most: o.RepackMaxGPUs, rest: o.RepackRest,
		refused: map[types.NamespacedName]*refusedGraph{}, requests: map[string]*moveRequest{},
	}
}

// note updates the refused graphs from a plan. It adds the graph if the plan had no capacity for one of its gangs, and forgets it
// otherwise.
func (f *placeFreer) note(dgd *nvidiav1beta1.DynamoGraphDeployment, request *gang.Request, planned *placement.Result, now time.Time) {
	name := client.ObjectKeyFromObject(dgd)
	if !refused(planned) {
		f.forget(name, true)
		return
	}
	one := f.refused[name]
	if one == nil || one.dgd.UID != dgd.UID {
		one = &refusedGraph{since: now}
		f.refused[name] = one
	}
	one.dgd, one.demand, one.planned = dgd, request.Graph, planned
}

// forget drops a graph that does not wait for capacity. placed is true if the graph is placed.
func (f *placeFreer) forget(name types.NamespacedName, placed bool) {
	delete(f.refused, name)
	if f.batch != nil && f.batch.graph == name {
		f.batch.placed = f.batch.placed || placed
	}
}

// follow updates the requests from the annotation of a pod.
func (f *placeFreer) follow(pod *corev1.Pod, id string, now time.Time) {
	request, requested := leaving.EvictionOf(pod)
	one := f.requests[id]
	if !requested || request.For == "" {
		if one != nil && one.stored {
			delete(f.requests, id)
		}
		return
	}
	if counts, _ := request.Counts(now, false); !counts {
		delete(f.requests, id)
		return
	}
	namespace, name, _ := strings.Cut(request.For, "/")
	graph := types.NamespacedName{Namespace: namespace, Name: name}
	if one == nil || one.graph != graph {
		one = &moveRequest{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, graph: graph, seen: now}
		f.requests[id] = one
	}
	one.stored, one.at, one.most = true, request.At, request.MaxGPUs
}

// open returns the requests that are neither withdrawn nor expired, sorted by pod.
func (f *placeFreer) open(now time.Time) []*moveRequest {
	var out []*moveRequest
	for _, one := range f.requests {
		if !one.withdrawn && now.Before(one.at.Add(leaving.EvictionCounts)) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b *moveRequest) int { return cmp.Compare(a.pod.String(), b.pod.String()) })
	return out
}

// renewAfter is the age at which the operator renews a request.
const renewAfter = leaving.EvictionCounts / 4

// due reports whether a decision about moves is due now. If not, it returns the time until a decision is due.
func (f *placeFreer) due(now time.Time) (is bool, again time.Duration) {
	open := f.open(now)
	if b := f.batch; b != nil {
		if f.refused[b.graph] != nil && !b.since.IsZero() {
			again = b.since.Add(placedWithin).Sub(now)
			return again <= 0 || !f.reserver.has(b.graph), again
		}
		again = b.until.Sub(now)
		for _, one := range open {
			again = min(again, one.at.Add(renewAfter).Sub(now))
		}
		foreign := slices.ContainsFunc(open, func(one *moveRequest) bool { return one.graph != b.graph })
		return again <= 0 || foreign || len(open) == 0 || f.refused[b.graph] == nil || !f.reserver.has(b.graph), again
	}
	if len(open) > 0 {
		return true, 0
	}
	again = time.Hour
	if f.after == 0 {
		return false, again
	}
	for _, one := range f.refused {
		again = min(again, f.turn(one).Sub(now))
	}
	return again <= 0, again
}

// turn returns the time at which to look for moves for a waiting graph.
func (f *placeFreer) turn(one *refusedGraph) time.Time {
	if at := one.since.Add(f.after); at.After(one.retry) {
		return at
	}
	return one.retry
}

// next returns the graph for which to look for moves now; nil for none. The highest priority comes first, then the oldest graph.
func (f *placeFreer) next(now time.Time) *refusedGraph {
	list := slices.DeleteFunc(slices.Collect(maps.Values(f.refused)), func(one *refusedGraph) bool { return now.Before(f.turn(one)) })
	if f.after == 0 || len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *refusedGraph) int {
		return cmp.Or(cmp.Compare(b.demand.Priority, a.demand.Priority), a.dgd.CreationTimestamp.Compare(b.dgd.CreationTimestamp.Time),
			cmp.Compare(a.dgd.Namespace, b.dgd.Namespace), cmp.Compare(a.dgd.Name, b.dgd.Name))
	})
}

// moversOf returns the deployments whose replicas move according to a plan.
func moversOf(plan *repack.Plan) map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for i := range plan.Moves {
		out[types.NamespacedName{Namespace: plan.Moves[i].Replica.Namespace, Name: plan.Moves[i].Replica.Graph}] = true
	}
	return out
}

// reserveFreed reserves the hosts that the moves of a plan free, for the waiting graph.
func (r *domainReserver) reserveFreed(one *refusedGraph, plan *repack.Plan, now time.Time) {
	r.replace(&domainReservation{
		graph: client.ObjectKeyFromObject(one.dgd), priority: one.demand.Priority, created: one.dgd.CreationTimestamp.Time,
		levels: one.demand.Levels, domain: slices.Clone(plan.Domains[0]), nodes: plan.Nodes, until: now.Add(r.lasts),
		moves: plan.Cost, movers: moversOf(plan),
	})
}

// isTaken reports whether hosts are reserved for another graph with the same or a higher priority. Moves must not end that reservation.
func (r *domainReserver) isTaken(one *refusedGraph) bool {
	return r.current != nil && r.current.graph != client.ObjectKeyFromObject(one.dgd) && r.current.priority >= one.demand.Priority
}

// podsOf returns the pods of a replica, from the observations of the deployments.
func podsOf(replica *repack.Replica, of []gang.Observation) []*corev1.Pod {
	ids := map[string]bool{}
	for i := range replica.Pods {
		ids[replica.Pods[i].ID] = true
	}
	for i := range of {
		if of[i].DGD.Namespace == replica.Namespace && of[i].DGD.Name == replica.Graph {
			return slices.DeleteFunc(slices.Clone(of[i].Pods), func(pod *corev1.Pod) bool { return !ids[topology.PodID(pod)] })
		}
	}
	return nil
}
