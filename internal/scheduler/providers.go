// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// placerOf returns the placer of a graph; nil when its provider makes the pods itself, or there is none of that name.
func (s *Scheduler) placerOf(o gang.Observation) provider.Placer {
	if len(o.Groups) == 0 {
		return nil
	}
	return s.providers.Placer(o.Groups[0].Spec.Provider)
}

// makerOf returns what makes the pods of multinode replicas of a graph, where Trellis does not; else nil.
func (s *Scheduler) makerOf(o gang.Observation) provider.Maker {
	for _, sg := range o.Groups {
		if maker := s.providers.Maker(sg.Spec.Workload); maker != nil {
			return maker
		}
	}
	return nil
}

func (s *Scheduler) barsOf(ctx context.Context, one provider.Provider, groups []*trellisv1alpha1.ScalingGroup) string {
	if state := s.providers.State(ctx, one.Name()); !state.Ready {
		return state.Message
	}
	return one.Unsuited(groups)
}

// askProvider finds out, before the cluster cache is locked, whether the provider releases anything now and what its scheduler holds
// against released pods that are not bound.
func (s *Scheduler) askProvider(ctx context.Context, o *gang.Observation) {
	placer := s.placerOf(*o)
	if placer == nil {
		return
	}
	o.Bars = s.barsOf(ctx, placer, o.Groups)
	if maker := s.makerOf(*o); o.Bars == "" && maker != nil {
		o.Bars = s.barsOf(ctx, maker, o.Groups)
	}
	var unbound []*corev1.Pod
	for _, pod := range o.Pods {
		if gang.WaitsForScheduler(pod) {
			unbound = append(unbound, pod)
		}
	}
	s.trim(ctx, placer, *o)
	if len(unbound) > 0 {
		o.Objections = placer.Objections(ctx, s.providers.Own(placer.Name()), unbound, o.Pods)
	}
	s.trackObjections(*o)
}

// trim takes lost replicas off what the provider's scheduler gets of the graph.
func (s *Scheduler) trim(ctx context.Context, placer provider.Placer, o gang.Observation) {
	trimmer, ok := placer.(provider.Trimmer)
	if !ok || o.Bars != "" {
		return
	}
	gang := gang.Members{Name: o.DGD.Name, Graph: o.DGD, Groups: o.Groups}
	if err := trimmer.Trim(ctx, s.providers.Own(placer.Name()), gang, o.Pods); err != nil {
		logger(ctx, o.DGD).Error(err, "taking lost replicas off the gang's objects")
	}
}

// trackObjections notes since when the provider's scheduler has objected to a pod: when it stays so, requeueStuck evicts the gang.
func (s *Scheduler) trackObjections(o gang.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range o.Pods {
		_, objected := o.Objections[pod.UID]
		s.unbound.setObjected(topology.PodID(pod), objected, pod.Status.NominatedNodeName, s.options.Clock.Now())
	}
}

// stuckSince says since when a released pod, or the rest of its replica, cannot be bound where it is to go, and why; "" when nothing is known against it, or nothing that
// another place would change. Called with the lock held.
func (s *Scheduler) stuckSince(o gang.Observation, pod *corev1.Pod) (since time.Time, why string) {
	id := topology.PodID(pod)
	if o.Objections[pod.UID].Anywhere {
		s.unbound.restart(id, s.options.Clock.Now())
		return time.Time{}, ""
	}
	if one, stuck := s.unbound.stuck[id]; stuck {
		return one.since, unbindable(pod, gang.WhyUnschedulable(pod))
	}
	if one, is := s.unbound.parted[id]; is {
		return one.since, one.why
	}
	return s.unbound.objected[id].since, unbindable(pod, o.Objections[pod.UID].Message)
}

// unbindable is what stands against a pod, in a sentence; "" for nothing.
func unbindable(pod *corev1.Pod, why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s could not be bound: %s", pod.Name, why)
}
