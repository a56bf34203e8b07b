// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

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
	// begun: a pod of the gang is released already.
	begun bool
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
	s.goOn(g)
	s.writes <- struct{}{}
	go func() {
		err := g.placer.Form(ctx, g.gang)
		if err != nil {
			<-s.writes
			s.formFailed(ctx, g, err)
			return
		}
		err = s.releasePod(ctx, g, g.pods[0])
		<-s.writes
		if err != nil {
			for _, r := range g.pods[1:] {
				s.notReleased(g, r.Pod, err)
			}
			return
		}
		s.beginGang(g, g.pods[1:])
		var rest sync.WaitGroup
		failed := atomic.Bool{}
		for _, r := range g.pods[1:] {
			select {
			case s.writes <- struct{}{}:
			case <-ctx.Done():
				return // the loop has ended
			}
			rest.Go(func() {
				defer func() { <-s.writes }()
				if s.releasePod(ctx, g, r) != nil {
					failed.Store(true)
				}
			})
		}
		if rest.Wait(); !failed.Load() {
			s.endFailures(g.gang.Graph)
		}
	}()
}

// beginGang notes that a pod of the gang is released: from now on the others keep their capacity until they are released too, or it would be
// lost to others, and what is released would wait for the rest for good.
func (s *Scheduler) beginGang(g *gangRelease, rest []gang.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.begun = true
	for _, r := range rest {
		s.inFlight.begun[topology.PodID(r.Pod)] = true
	}
}

// goOn takes a gang for begun of which a pod was released in an earlier try.
func (s *Scheduler) goOn(g *gangRelease) {
	s.mu.Lock()
	begun := slices.ContainsFunc(g.pods, func(r gang.Release) bool { return s.inFlight.begun[topology.PodID(r.Pod)] })
	s.mu.Unlock()
	if begun {
		s.beginGang(g, g.pods)
	}
}

// releasePod releases one pod. When it fails the graph is looked at again: what was released of the gang by then anchors the rest.
func (s *Scheduler) releasePod(ctx context.Context, g *gangRelease, r gang.Release) error {
	err := g.placer.Release(ctx, r.Pod, r.Pin)
	if err == nil {
		return nil // the pod's own event ends the release
	}
	if !errors.Is(err, provider.ErrPodGone) && ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "releasing a pod", "pod", r.Pod.Name, "gang", r.Pin.Gang)
	}
	s.notReleased(g, r.Pod, err)
	s.tryAgain(g, err)
	return err
}

// notReleased ends a release that failed. In a gang that has begun the pod keeps its capacity until the gang is planned again, unless it has no
// use for it.
func (s *Scheduler) notReleased(g *gangRelease, pod *corev1.Pod, err error) {
	if !g.begun || overtaken(err) {
		s.giveBack(pod)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := topology.PodID(pod); s.inFlight.begun[id] { // else its release is visible, or it is gone
		s.inFlight.failed[id] = true
	}
}

// tryAgain has a gang looked at again after its release failed.
func (s *Scheduler) tryAgain(g *gangRelease, err error) {
	if overtaken(err) {
		s.lookAgain(g.gang.Graph)
	} else {
		s.noteFailure(g.gang.Graph, err)
	}
}

// overtaken: what the release was planned on is no longer so. Other failures are the same, or over, at the next try.
func overtaken(err error) bool {
	return errors.Is(err, provider.ErrPodGone) || errors.Is(err, provider.ErrElsewhere) || errors.Is(err, provider.ErrStale)
}

// giveBackRest ends the reservations of gated pods of a graph whose gang was evicted.
func (s *Scheduler) giveBackRest(pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		id := topology.PodID(pod)
		if _, onItsWay := s.inFlight.domains[id]; s.inFlight.failed[id] || s.inFlight.begun[id] && !onItsWay {
			s.inFlight.forget(id)
			s.cluster.Forget(id)
		}
	}
}

// formFailed gives the capacity of a gang that has not begun back and has the graph looked at again. Pods that cannot be of the gang any more (stale
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
		s.notReleased(g, r.Pod, err)
		if !stale {
			continue
		}
		if err := g.placer.Evict(ctx, r.Pod); err != nil {
			logger(ctx, g.gang.Graph).Error(err, "evicting a pod", "pod", r.Pod.Name)
		}
	}
	s.tryAgain(g, err)
}

// giveBack ends the reservation of a pod that was not released.
func (s *Scheduler) giveBack(pod *corev1.Pod) {
	id := topology.PodID(pod)
	s.mu.Lock()
	s.inFlight.forget(id)
	s.cluster.Forget(id)
	s.mu.Unlock()
}

func (s *Scheduler) lookAgain(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	s.queue.addAt(client.ObjectKeyFromObject(dgd), s.options.Clock.Now().Add(retryAfter))
}
