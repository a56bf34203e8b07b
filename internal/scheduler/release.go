// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gangRelease is one gang that is being released.
type gangRelease struct {
	gang   gang.Members
	placer provider.Placer
	pods   []gang.Release
}

// gangsOf sorts releases by gang.
func (s *Scheduler) gangsOf(o gang.Observation, releases []gang.Release) []*gangRelease {
	var out []*gangRelease
	byName := map[string]*gangRelease{}
	for _, r := range releases {
		g := byName[r.Pin.Gang]
		if g == nil {
			g = &gangRelease{placer: s.placerOf(o), gang: gang.Members{Name: r.Pin.Gang, Graph: o.DGD, Groups: o.Groups}}
			byName[r.Pin.Gang] = g
			out = append(out, g)
		}
		g.gang.Base = g.gang.Base || r.Base
		g.pods = append(g.pods, r)
		g.addPod(o, r.Pod)
	}
	return out
}

func (g *gangRelease) addPod(o gang.Observation, pod *corev1.Pod) {
	ordinal, _, _ := graph.ReplicaOf(pod)
	for i := range g.gang.Replicas {
		replica := &g.gang.Replicas[i]
		if replica.Ordinal == ordinal && replica.Group.Name == pod.Labels[graph.LabelScalingGroup] {
			replica.Pods = append(replica.Pods, pod)
			return
		}
	}
	for _, sg := range o.Groups {
		if sg.Name == pod.Labels[graph.LabelScalingGroup] {
			g.gang.Replicas = append(g.gang.Replicas, gang.Member{Group: sg, Ordinal: ordinal, Pods: []*corev1.Pod{pod}})
			return
		}
	}
}

// release forms a gang and then releases its pods, outside the planning goroutine. It returns when the gang has its turn.
//
// The oldest pod goes first and alone: whoever opens its gate decides where the gang goes. A leader that was replaced and goes on, with a plan of
// its own, finds it open and leaves the rest to the other. The oldest, since a pod that was released and that one of them still takes for gated is
// older than those that are recreated beside it; of one second the first by name, since both leaders have to begin with the same.
func (s *Scheduler) release(ctx context.Context, g *gangRelease) {
	slices.SortFunc(g.pods, func(a, b gang.Release) int {
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	s.writes <- struct{}{}
	go func() {
		err := g.placer.Form(ctx, g.gang)
		if err != nil {
			<-s.writes
			s.formFailed(ctx, g, err)
			return
		}
		began := s.releasePod(ctx, g, g.pods[0])
		<-s.writes
		for _, r := range g.pods[1:] {
			if !began {
				s.giveBack(r.Pod)
				continue
			}
			select {
			case s.writes <- struct{}{}:
			case <-ctx.Done():
				return // the loop has ended
			}
			go func() {
				defer func() { <-s.writes }()
				s.releasePod(ctx, g, r)
			}()
		}
	}()
}

// releasePod releases one pod. When it fails the pod's capacity is given back and the graph looked at again: what was released of the
// gang by then anchors the rest.
func (s *Scheduler) releasePod(ctx context.Context, g *gangRelease, r gang.Release) bool {
	err := g.placer.Release(ctx, r.Pod, r.Pin)
	if err == nil {
		return true // the pod's own event ends the release
	}
	if !errors.Is(err, provider.ErrPodGone) && ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "releasing a pod", "pod", r.Pod.Name, "gang", r.Pin.Gang)
	}
	s.giveBack(r.Pod)
	s.lookAgain(g.gang.Graph)
	return false
}

// formFailed gives the capacity of the whole gang back and has the graph looked at again. Pods that cannot be of the gang any more (stale
// objects stand in the way) are deleted, to be recreated.
func (s *Scheduler) formFailed(ctx context.Context, g *gangRelease, err error) {
	stale := errors.Is(err, provider.ErrStale)
	if ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "forming a gang", "gang", g.gang.Name)
		s.providers.Suspect()
	}
	if stale {
		gangEvictions.WithLabelValues(ReasonStaleObjects).Inc()
	}
	for _, r := range g.pods {
		s.giveBack(r.Pod)
		if !stale {
			continue
		}
		if err := g.placer.Evict(ctx, r.Pod); err != nil {
			logger(ctx, g.gang.Graph).Error(err, "evicting a pod", "pod", r.Pod.Name)
		}
	}
	s.lookAgain(g.gang.Graph)
}

// giveBack ends the reservation of a pod that was not released.
func (s *Scheduler) giveBack(pod *corev1.Pod) {
	id := topology.PodID(pod)
	s.mu.Lock()
	s.inFlight.forget(id)
	s.endReservation(id)
	s.mu.Unlock()
}

// endReservation ends the reservation of a pod, if it has one. Called with the lock held.
func (s *Scheduler) endReservation(id string) {
	if node, has := s.cluster.Reserved(id); has {
		s.cluster.Forget(id)
		s.capacityFreed(node)
	}
}

func (s *Scheduler) lookAgain(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	s.queue.addAt(client.ObjectKeyFromObject(dgd), s.options.Clock.Now().Add(retryAfter))
}
