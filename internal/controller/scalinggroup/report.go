// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
)

// firstAfter is how long the first status of a group may be delayed. It is shorter than the delay of the deployment's first status, which
// depends on the group's status.
const firstAfter = pace.Interval / 2

// report writes the status if it has changed. again is the delay after which another reconcile writes a change that can wait; 0 if nothing
// waits.
func (r *Reconciler) report(ctx context.Context, sg *trellisv1alpha1.ScalingGroup,
	status trellisv1alpha1.ScalingGroupStatus) (again time.Duration, err error) {
	name := client.ObjectKeyFromObject(sg)
	switch {
	case equality.Semantic.DeepEqual(sg.Status, status):
		r.written.Settled(name)
		return 0, nil
	case beginning(sg, &status):
		again = r.written.First(name, firstAfter)
	case canWait(sg, &status):
		again = r.written.Left(name)
	}
	if again > 0 {
		return again, nil
	}
	written, err := statuspatch.Write(ctx, r.Client, sg.DeepCopy(), status)
	if written {
		r.written.Wrote(name)
	}
	return 0, wrapped(err, "writing the status")
}

// canWait reports whether the status write can be delayed, because no controller acts on the change. The deployment's status depends on
// conditions, generations, whether all replicas serve, and whether no replica is outdated. The next reconciles depend on failures and
// revisions.
func canWait(sg *trellisv1alpha1.ScalingGroup, now *trellisv1alpha1.ScalingGroupStatus) bool {
	before := &sg.Status
	serve := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.ReadyReplicas >= sg.Spec.Replicas }
	current := func(s *trellisv1alpha1.ScalingGroupStatus) bool { return s.OutdatedReplicas == 0 }
	return before.ObservedGeneration == now.ObservedGeneration && before.Revision == now.Revision && before.Restart == now.Restart &&
		serve(before) == serve(now) && current(before) == current(now) && !pace.Turned(before.Conditions, now.Conditions) &&
		equality.Semantic.DeepEqual(before.FailedReplicas, now.FailedReplicas) && inPlace(before) == inPlace(now)
}

// beginning reports whether the group has no status yet and starts as expected: not all replicas serve yet, none has failed, and no
// condition is False.
func beginning(sg *trellisv1alpha1.ScalingGroup, now *trellisv1alpha1.ScalingGroupStatus) bool {
	return sg.Status.ObservedGeneration == 0 && len(sg.Status.Conditions) == 0 && len(now.FailedReplicas) == 0 &&
		now.ReadyReplicas < sg.Spec.Replicas &&
		!slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse })
}
