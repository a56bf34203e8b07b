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
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// schedule looks at one graph: take back what cannot bind, plan what waits, send the placed pods off, report.
func (s *Scheduler) schedule(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	name := client.ObjectKeyFromObject(dgd)
	o, err := s.observe(ctx, dgd)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	s.askEngine(ctx, &o)
	if s.requeueStuck(ctx, o) {
		return // the pods' deletion brings us back
	}
	releases, result, err := s.decideNow(ctx, &o)
	if err != nil {
		s.notRead(ctx, name, err)
		return
	}
	for _, gang := range s.gangsOf(o, releases) {
		s.letGo(ctx, gang)
	}
	if s.results.set(name, result) {
		s.announce(ctx, dgd, o.pods, result)
	}
}

func (s *Scheduler) notRead(ctx context.Context, name types.NamespacedName, err error) {
	log.FromContext(ctx).Error(err, "reading a graph's objects from the cache", "graph", name)
	s.queue.addAt(name, s.options.Clock.Now().Add(time.Second))
}

// decideNow reads the graph again and decides, both under the lock. The API cache sees every event before the cluster cache does, so
// what is read while the picture stands still is not older than it. An older list would show pods as waiting, or as bound nowhere, that
// the picture has on a node already, and they would be given capacity a second time.
func (s *Scheduler) decideNow(ctx context.Context, o *observed) ([]release, Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.observe(ctx, o.dgd)
	if err != nil {
		return nil, Result{}, err
	}
	now.bars, now.objections = o.bars, o.objections
	*o = now
	releases, result := s.decide(ctx, now)
	result.Score = s.score(now)
	s.followWaits(now, &result)
	// Under the same lock, so that no change of the cluster comes in between.
	s.queue.setWaiting(client.ObjectKeyFromObject(o.dgd), len(result.Waiting)+len(result.Surplus) > 0, waiting{result.preemptsBelow, result.unmet})
	result.unmet = nil
	return releases, result, nil
}

// decide plans and reserves what it decides. Called with the lock held.
func (s *Scheduler) decide(ctx context.Context, o observed) ([]release, Result) {
	s.endIdleReservations(o)
	o.releasing, o.idle = s.releasing, s.idle.ended
	v := newView(o)
	s.recoverReservations(o)
	result := Result{UID: o.dgd.UID, Creating: v.creating, Wanted: v.wanted, Placed: v.placed, Domain: v.graph.Anchor, Waiting: slices.Concat(v.blocked, v.refused)}
	if o.bars != "" && v.hasWaiting() {
		delete(s.keeper.line, client.ObjectKeyFromObject(o.dgd))
		result.Waiting = append(result.Waiting, v.allWaiting(CodeEngineNotReady, o.bars)...)
		return nil, result
	}
	if wait := s.backingOff(o.dgd); wait != nil && v.hasWaiting() {
		delete(s.keeper.line, client.ObjectKeyFromObject(o.dgd))
		result.Waiting = append(result.Waiting, v.allWaiting(CodeRequeued, wait.message)...)
		s.queue.addAt(client.ObjectKeyFromObject(o.dgd), wait.until)
		return nil, result
	}
	if !v.hasWaiting() {
		if allBound(o.pods) {
			delete(s.backoff, client.ObjectKeyFromObject(o.dgd))
		}
		s.leaveLine(client.ObjectKeyFromObject(o.dgd), false)
		return nil, result
	}
	return s.plan(ctx, o, &v, result)
}

// plan runs the planner and turns its answer into releases. A base gang that is not fully created yet is only waited for.
func (s *Scheduler) plan(ctx context.Context, o observed, v *view, result Result) ([]release, Result) {
	s.freeHolds(o.dgd.Namespace, v)
	s.liftKept(o.dgd, v)
	s.cluster.Begin()
	started := s.options.Clock.Now()
	planned := placement.PlanGraph(s.cluster, v.graph, placement.Options{})
	planSeconds.Observe(s.options.Clock.Since(started).Seconds())
	s.markCurrent()
	result.preemptsBelow = v.preemptsBelow()
	if v.waitsForCreation(planned) {
		s.cluster.Rollback()
		s.restoreHolds()
		delete(s.keeper.line, client.ObjectKeyFromObject(o.dgd)) // whether there is capacity is not known
		result.Waiting = append(result.Waiting, v.allWaiting(CodeCreating, beingCreated)...)
		return nil, result
	}
	s.cluster.Commit()
	var releases []release
	base := gangName(o.dgd.Name, planned, func(r placement.ReplicaResult) bool { return r.Base })
	heads := v.headsInCreation(&planned)
	for _, replica := range planned.Replicas {
		if v.incomplete[replicaKey{replica.Service, replica.Ordinal}] || heads[replica.Service] {
			s.dropPlan(replica)
			result.Waiting = append(result.Waiting, Waiting{Service: replica.Service, Ordinal: replica.Ordinal, Code: CodeCreating, Message: beingCreated})
			continue
		}
		if replica.Refusal != nil {
			list := &result.Waiting
			if v.surplus[replicaKey{replica.Service, replica.Ordinal}] {
				list = &result.Surplus
			}
			*list = append(*list, Waiting{
				Service: replica.Service, Ordinal: replica.Ordinal, Code: replica.Refusal.Code, Message: replica.Refusal.Message(), Refusal: replica.Refusal,
			})
			continue
		}
		if !v.surplus[replicaKey{replica.Service, replica.Ordinal}] {
			result.Placed++
		}
		s.observePlaced(o, v, replica)
		s.tell(ctx, o.dgd, v, replica)
		releases = append(releases, s.releasesOf(o.dgd, v, replica, base)...)
	}
	if len(result.Waiting)+len(result.Surplus) == refusals(&planned) {
		result.unmet = placement.UnmetOf(v.graph, &planned)
	}
	s.endHolds(v)
	s.keep(ctx, o.dgd, v, &planned, &result)
	if result.Domain == nil {
		result.Domain = planned.Domain
	}
	if len(releases) > 0 {
		placementScore.Observe(planned.Score)
		logger(ctx, o.dgd).Info("placed", "domain", result.Domain.String(), "pods", len(releases), "replicas", result.Placed, "waiting", len(result.Waiting))
	}
	slices.SortStableFunc(result.Waiting, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return releases, result
}

// announce tells the user, on the graph's status and here on the pods that wait, since that is where users look.
func (s *Scheduler) announce(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result Result) {
	first := firstPods(pods)
	said := false
	for _, w := range result.Waiting {
		if w.Code == CodeCreating {
			continue
		}
		if !said {
			said = true
			logger(ctx, dgd).Info("waiting", "service", w.Service, "replica", w.Ordinal, "reason", w.Code, "message", w.Message, "replicas", len(result.Waiting))
		}
		if pod := first[replicaKey{graph.LabelValue(w.Service), w.Ordinal}]; pod != nil {
			s.recorder.Eventf(pod, dgd, corev1.EventTypeWarning, w.Code, "Place", "%s", w.Message)
		}
	}
}

// firstPods finds the pod that speaks for its replica, the one of the lowest index, by component label and ordinal.
func firstPods(pods []*corev1.Pod) map[replicaKey]*corev1.Pod {
	first, lowest := map[replicaKey]*corev1.Pod{}, map[replicaKey]int32{}
	for _, pod := range pods {
		ordinal, index, ok := graph.ReplicaOf(pod)
		if !ok || leaving(pod) {
			continue
		}
		key := replicaKey{pod.Labels[graph.LabelComponent], int(ordinal)}
		if known := first[key]; known == nil || index < lowest[key] {
			first[key], lowest[key] = pod, index
		}
	}
	return first
}

func allBound(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
}

// refusals counts the replicas that were refused.
func refusals(result *placement.Result) (n int) {
	for i := range result.Replicas {
		if result.Replicas[i].Refusal != nil {
			n++
		}
	}
	return n
}

func (v *view) hasWaiting() bool {
	return slices.ContainsFunc(v.graph.Services, func(s placement.Service) bool { return len(s.Waiting) > 0 })
}

func (v *view) allWaiting(code, message string) []Waiting {
	var out []Waiting
	for _, service := range v.graph.Services {
		for _, replica := range service.Waiting {
			out = append(out, Waiting{Service: service.Name, Ordinal: replica.Ordinal, Code: code, Message: message})
		}
	}
	return out
}

// waitsForCreation: a base gang goes together, so it is not released while a member of it is still to be created.
func (v *view) waitsForCreation(result placement.Result) bool {
	if v.graph.Required == topology.NoLevel || v.graph.Anchor != nil {
		return false
	}
	if v.creating || len(v.replacing) > 0 {
		return true
	}
	return slices.ContainsFunc(result.Replicas, func(r placement.ReplicaResult) bool {
		return r.Base && v.incomplete[replicaKey{r.Service, r.Ordinal}]
	})
}

// headsInCreation are the services that begin with several replicas together, of which some are still to be created.
func (v *view) headsInCreation(result *placement.Result) map[string]bool {
	out := map[string]bool{}
	for i := range result.Replicas {
		if r := &result.Replicas[i]; r.Head && (v.replacing[r.Service] || v.incomplete[replicaKey{r.Service, r.Ordinal}]) {
			out[r.Service] = true
		}
	}
	return out
}

// String names a waiting replica for messages.
func (w Waiting) String() string { return fmt.Sprintf("%s-%d: %s", w.Service, w.Ordinal, w.Message) }
