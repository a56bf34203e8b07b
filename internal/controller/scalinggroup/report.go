// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

// report writes the status when it changed. Progress that can wait is written after again, in another reconcile.
func (r *Reconciler) report(ctx context.Context, sg *trellisv1alpha1.ScalingGroup,
	status trellisv1alpha1.ScalingGroupStatus) (again time.Duration, err error) {
	if equality.Semantic.DeepEqual(sg.Status, status) {
		return 0, nil
	}
	name := client.ObjectKeyFromObject(sg)
	if again = r.written.Left(name); again > 0 && canWait(sg, &status) {
		return again, nil
	}
	changed := sg.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(sg)); err != nil {
		return 0, wrapped(client.IgnoreNotFound(err), "writing the status")
	}
	r.written.Wrote(name)
	return 0, nil
}

// canWait: no one acts on the change. Deployments go by conditions, generations and whether all replicas serve or none is outdated;
// failures and revisions are what the next reconciles decide by.
func canWait(sg *trellisv1alpha1.ScalingGroup, now *trellisv1alpha1.ScalingGroupStatus) bool {
	before := &sg.Status
	serve := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.ReadyReplicas >= sg.Spec.Replicas }
	current := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.OutdatedReplicas == 0 }
	return before.ObservedGeneration == now.ObservedGeneration && before.Revision == now.Revision && before.Restart == now.Restart &&
		serve(before) == serve(now) && current(before) == current(now) && !pace.Turned(before.Conditions, now.Conditions) &&
		equality.Semantic.DeepEqual(before.FailedReplicas, now.FailedReplicas) && inPlace(before) == inPlace(now)
}
