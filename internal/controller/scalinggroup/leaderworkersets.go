// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// A replica whose pods Trellis does not make is made and taken down by the one object they come from, its set. The state of a replica
// is still read from its pods; the set counts only where they cannot tell: when it exists and they do not yet, or when it is being deleted.

// makes reports whether the group's pods can be made here and now.
func (r *Reconciler) makes(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) bool {
	if sg.Spec.Workload == "" {
		return true
	}
	maker := r.Providers.Maker(sg.Spec.Workload)
	return maker != nil && r.Providers.State(ctx, sg.Spec.Workload).Ready && maker.Unsuited([]*trellisv1alpha1.ScalingGroup{sg}) == ""
}

// lookForSets adds what the replicas' pods come from. While the API is not served there is nothing to see: then the pods alone count.
func (p *pass) lookForSets(ctx context.Context) error {
	maker := p.Providers.Maker(p.sg.Spec.Workload)
	if maker == nil || !p.Providers.State(ctx, p.sg.Spec.Workload).Ready {
		return nil
	}
	sets, err := maker.Sets(ctx, p.Providers.Own(p.sg.Spec.Workload), p.sg)
	addSets(p.sg, p.replicas, sets)
	return err
}

// make has the maker make replicas, with pods as the group's placer prepares them.
func (r *Reconciler) make(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinals []int32) error {
	placer := r.Providers.Placer(sg.Spec.Provider)
	err := r.Providers.Maker(sg.Spec.Workload).Make(ctx, sg, ordinals, func(ordinal int32, pod *corev1.Pod) {
		placer.Prepare(sg, ordinal, []*corev1.Pod{pod}, nil)
	})
	if errors.Is(err, provider.ErrDropped) {
		r.Providers.Suspect()
	}
	return err
}

// unmake deletes what the pods of a replica come from. Pods that a vanished one left behind are deleted one by one; so is a pod whose node
// is gone, since no kubelet will say that it has ended.
func (r *Reconciler) unmake(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, gone removal) error {
	log.FromContext(ctx).Info("taking a replica down", "replica", gone.ordinal, "why", gone.why)
	maker := r.Providers.Maker(sg.Spec.Workload)
	if maker == nil {
		return fmt.Errorf("this version of Trellis has no workload %q", sg.Spec.Workload)
	}
	found, err := maker.Unmake(ctx, sg, gone.ordinal)
	if err != nil {
		return err
	}
	var pods steps
	pods.removePods(gone.replica, gone.why)
	failures := []error{}
	for _, d := range pods.delete {
		if d.force || !found {
			failures = append(failures, r.deletePod(ctx, d))
		}
	}
	return errors.Join(failures...)
}
