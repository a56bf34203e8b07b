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

// placerOf returns the placer of a graph; nil if its provider creates the pods itself, or no placer has the provider's name.
func placerOf(r *provider.Registry, o gang.Observation) provider.Placer {
	if len(o.Groups) == 0 {
		return nil
	}
	return r.Placer(o.Groups[0].Spec.Provider)
}

// makerOf returns the maker of the pods of a graph's multinode replicas; nil if Trellis creates these pods.
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

// askProvider asks the provider whether pods can be released now, and which objections its scheduler has to released, unbound pods. It is
// called before the ledger is locked.
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

// trim removes lost replicas from the provider's objects, which list the graph's replicas for the provider's scheduler.
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
