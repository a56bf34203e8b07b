// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Codes of replicas that wait for their engine.
const (
	// CodeEngineNotReady means that the graph's engine does not work in this cluster, or cannot hold this graph together.
	CodeEngineNotReady = "EngineNotReady"
	// CodeSchedulerRefuses means that the replica is placed and was released, and that the engine's scheduler does not bind it there.
	CodeSchedulerRefuses = "SchedulerRefuses"
)

// gangRelease is one gang on its way.
type gangRelease struct {
	gang   engine.Gang
	placer engine.Placer
	pods   []release
}

// placerOf returns the placer of a graph; nil when its engine makes the pods itself, or there is none of that name.
func (s *Scheduler) placerOf(o observed) engine.Placer {
	if len(o.groups) == 0 {
		return nil
	}
	return s.engines.Placer(o.groups[0].Spec.Engine)
}

// makerOf returns what makes the pods of multinode replicas of a graph, where Trellis does not; else nil.
func (s *Scheduler) makerOf(o observed) engine.Maker {
	for _, sg := range o.groups {
		if maker := s.engines.Maker(sg.Spec.Workload); maker != nil {
			return maker
		}
	}
	return nil
}

func (s *Scheduler) barsOf(ctx context.Context, one engine.Engine, groups []*trellisv1alpha1.ScalingGroup) string {
	if state := s.engines.State(ctx, one.Name()); !state.Ready {
		return state.Message
	}
	return one.Unsuited(groups)
}

// askEngine finds out, before the cluster cache is locked, whether the engine releases anything now and what its scheduler holds
// against released pods that are not bound.
func (s *Scheduler) askEngine(ctx context.Context, o *observed) {
	placer := s.placerOf(*o)
	if placer == nil {
		return
	}
	o.bars = s.barsOf(ctx, placer, o.groups)
	if maker := s.makerOf(*o); o.bars == "" && maker != nil {
		o.bars = s.barsOf(ctx, maker, o.groups)
	}
	var unbound []*corev1.Pod
	for _, pod := range o.pods {
		if pod.Annotations[graph.AnnotationGang] != "" && pod.Spec.NodeName == "" && !gates.Closed(pod) && !leaving(pod) {
			unbound = append(unbound, pod)
		}
	}
	s.trim(ctx, placer, *o)
	if len(unbound) > 0 {
		o.objections = placer.Object(ctx, s.engines.Own(placer.Name()), unbound, o.pods)
	}
	s.trackObjections(*o)
}

// trim takes lost replicas off what the engine's scheduler gets of the graph.
func (s *Scheduler) trim(ctx context.Context, placer engine.Placer, o observed) {
	trimmer, ok := placer.(engine.Trimmer)
	if !ok || o.bars != "" {
		return
	}
	gang := engine.Gang{Name: o.dgd.Name, Graph: o.dgd, Groups: o.groups}
	if err := trimmer.Trim(ctx, s.engines.Own(placer.Name()), gang, o.pods); err != nil {
		logger(ctx, o.dgd).Error(err, "taking lost replicas off the gang's objects")
	}
}

// trackObjections notes since when the engine's scheduler has objected to a pod: when it stays so, requeueStuck evicts the gang.
func (s *Scheduler) trackObjections(o observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range o.pods {
		id := topology.PodID(pod)
		if _, objected := o.objections[pod.UID]; !objected {
			delete(s.objected, id)
			continue
		}
		if _, known := s.objected[id]; !known {
			s.objected[id] = s.options.Clock.Now()
		}
	}
}

// stuckSince says since when a released pod cannot be bound where it is to go, and why; "" when nothing is known against it, or nothing that
// another place would change. Called with the lock held.
func (s *Scheduler) stuckSince(o observed, pod *corev1.Pod) (since time.Time, why string) {
	id := topology.PodID(pod)
	if o.objections[pod.UID].Anywhere {
		s.restart(id)
		return time.Time{}, ""
	}
	if since, stuck := s.stuck[id]; stuck {
		return since, whyUnschedulable(pod)
	}
	return s.objected[id], o.objections[pod.UID].Message
}

// restart counts the time of a pod from now on: when what stands against it anywhere is over, its scheduler gets all of it. Called with the
// lock held.
func (s *Scheduler) restart(id string) {
	for _, since := range []map[string]time.Time{s.stuck, s.objected} {
		if _, known := since[id]; known {
			since[id] = s.options.Clock.Now()
		}
	}
}

// object notes that a replica which is placed is not bound there by the engine's scheduler.
func (v *view) object(service string, state replicaState) bool {
	for _, pod := range state.open {
		if why := v.objections[pod.UID]; why.Message != "" && !why.Passing {
			v.refused = append(v.refused, Waiting{
				Service: service, Ordinal: state.ordinal, Code: CodeSchedulerRefuses,
				Message: "by Trellis' count it has capacity in " + orCluster(state.path) + "; " + why.Message,
			})
			return true
		}
	}
	return false
}

// gangsOf sorts releases by gang.
func (s *Scheduler) gangsOf(o observed, releases []release) []*gangRelease {
	var out []*gangRelease
	byName := map[string]*gangRelease{}
	for _, r := range releases {
		g := byName[r.pin.Gang]
		if g == nil {
			g = &gangRelease{placer: s.placerOf(o), gang: engine.Gang{Name: r.pin.Gang, Graph: o.dgd, Groups: o.groups}}
			byName[r.pin.Gang] = g
			out = append(out, g)
		}
		g.gang.Base = g.gang.Base || r.base
		g.pods = append(g.pods, r)
		g.addPod(o, r.pod)
	}
	return out
}

func (g *gangRelease) addPod(o observed, pod *corev1.Pod) {
	ordinal, _, _ := graph.ReplicaOf(pod)
	for i := range g.gang.Replicas {
		replica := &g.gang.Replicas[i]
		if replica.Ordinal == ordinal && replica.Group.Name == pod.Labels[graph.LabelScalingGroup] {
			replica.Pods = append(replica.Pods, pod)
			return
		}
	}
	for _, sg := range o.groups {
		if sg.Name == pod.Labels[graph.LabelScalingGroup] {
			g.gang.Replicas = append(g.gang.Replicas, engine.Replica{Group: sg, Ordinal: ordinal, Pods: []*corev1.Pod{pod}})
			return
		}
	}
}

// letGo forms a gang and then releases its pods, outside the planning goroutine. It returns when the gang has its turn.
func (s *Scheduler) letGo(ctx context.Context, g *gangRelease) {
	s.writes <- struct{}{}
	go func() {
		err := g.placer.Form(ctx, g.gang)
		<-s.writes
		if err != nil {
			s.formFailed(ctx, g, err)
			return
		}
		for _, r := range g.pods {
			select {
			case s.writes <- struct{}{}:
			case <-ctx.Done():
				return // the loop has ended
			}
			go func() {
				defer func() { <-s.writes }()
				s.send(ctx, g.placer, r)
			}()
		}
	}()
}

// formFailed gives the capacity of the whole gang back and has the graph looked at again. Pods that cannot be of the gang any more (stale
// objects stand in the way) are deleted, to be recreated.
func (s *Scheduler) formFailed(ctx context.Context, g *gangRelease, err error) {
	stale := errors.Is(err, engine.ErrStale)
	if ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "forming a gang", "gang", g.gang.Name)
		s.engines.Suspect()
	}
	if stale {
		gangEvictions.WithLabelValues(ReasonStaleObjects).Inc()
	}
	for _, r := range g.pods {
		s.giveBack(r.pod)
		if !stale {
			continue
		}
		if err := g.placer.Evict(ctx, r.pod); err != nil {
			logger(ctx, r.dgd).Error(err, "taking a pod back")
		}
	}
	s.lookAgain(g.gang.Graph)
}

func (s *Scheduler) giveBack(pod *corev1.Pod) {
	id := topology.PodID(pod)
	s.mu.Lock()
	delete(s.releasing, id)
	delete(s.released, id)
	delete(s.preempting, id)
	if node, has := s.cluster.Reserved(id); has {
		s.cluster.Forget(id)
		s.capacityFreed(node)
	}
	s.mu.Unlock()
}

func (s *Scheduler) lookAgain(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	s.queue.addAt(client.ObjectKeyFromObject(dgd), s.options.Clock.Now().Add(time.Second))
}
