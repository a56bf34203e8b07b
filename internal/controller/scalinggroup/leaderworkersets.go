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

// A maker ([provider.Maker]), such as LeaderWorkerSet, creates the pods of some groups instead of Trellis. Trellis then creates and deletes
// one object per replica: the replica's set. The replica's state is still read from its pods. The set matters only if the pods cannot show
// the state: while the set exists but its pods do not exist yet, and while the set is being deleted.

// makes reports whether the pods of the group can be created in this cluster now.
func (r *Reconciler) makes(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) bool {
	if sg.Spec.Workload == "" {
		return true
	}
	maker := r.Providers.Maker(sg.Spec.Workload)
	return maker != nil && r.Providers.State(ctx, sg.Spec.Workload).Ready && maker.Unsuited([]*trellisv1alpha1.ScalingGroup{sg}) == ""
}

// lookForSets adds the existing sets to the replicas. While the cluster does not serve the API of the sets, the state comes from the pods
// alone.
func (p *pass) lookForSets(ctx context.Context) error {
	maker := p.Providers.Maker(p.sg.Spec.Workload)
	if maker == nil || !p.Providers.State(ctx, p.sg.Spec.Workload).Ready {
		return nil
	}
	sets, err := maker.Sets(ctx, p.Providers.Own(p.sg.Spec.Workload), p.sg)
	addSets(p.sg, p.replicas, sets)
	return err
}

// make creates the sets of replicas through the maker, with pods that the group's placer has prepared.
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

// unmake deletes the set of a replica. If the set no longer exists, it deletes the pods one by one. It always deletes a pod whose node is
// gone, since no kubelet will confirm the pod's termination.
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
