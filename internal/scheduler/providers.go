// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// placerOf returns the placer of a graph; nil when its provider makes the pods itself, or there is none of that name.
func placerOf(r *provider.Registry, o gang.Observation) provider.Placer {
	if len(o.Groups) == 0 {
		return nil
	}
	return r.Placer(o.Groups[0].Spec.Provider)
}

// makerOf returns what makes the pods of multinode replicas of a graph, where Trellis does not; else nil.
func makerOf(r *provider.Registry, o gang.Observation) provider.Maker {
	for _, sg := range o.Groups {
		if maker := r.Maker(sg.Spec.Workload); maker != nil {
			return maker
		}
	}
	return nil
}

func barsOf(ctx context.Context, r *provider.Registry, one provider.Provider, groups []*trellisv1alpha1.ScalingGroup) string {
	if state := r.State(ctx, one.Name()); !state.Ready {
		return state.Message
	}
	return one.Unsuited(groups)
}

// askProvider finds out, before the cluster cache is locked, whether the provider releases anything now and what its scheduler holds
// against released pods that are not bound.
func (s *Scheduler) askProvider(ctx context.Context, o *gang.Observation) {
	placer := placerOf(s.providers, *o)
	if placer == nil {
		return
	}
	o.Bars = barsOf(ctx, s.providers, placer, o.Groups)
	if maker := makerOf(s.providers, *o); o.Bars == "" && maker != nil {
		o.Bars = barsOf(ctx, s.providers, maker, o.Groups)
	}
	var unbound []*corev1.Pod
	for _, pod := range o.Pods {
		if gang.WaitsForScheduler(pod) {
			unbound = append(unbound, pod)
		}
	}
	trim(ctx, s.providers, placer, *o)
	if len(unbound) > 0 {
		o.Objections = placer.Objections(ctx, s.providers.Own(placer.Name()), unbound, o.Pods)
	}
	s.ledger.objected(*o)
}

// trim takes lost replicas off what the provider's scheduler gets of the graph.
func trim(ctx context.Context, r *provider.Registry, placer provider.Placer, o gang.Observation) {
	trimmer, ok := placer.(provider.Trimmer)
	if !ok || o.Bars != "" {
		return
	}
	gang := gang.Members{Name: o.DGD.Name, Graph: o.DGD, Groups: o.Groups}
	if err := trimmer.Trim(ctx, r.Own(placer.Name()), gang, o.Pods); err != nil {
		logger(ctx, o.DGD).Error(err, "taking lost replicas off the gang's objects")
	}
}
