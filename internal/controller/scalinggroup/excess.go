// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// lookForExcess looks at the other role of the deployment when replicas of a role are to be scaled in.
func (r *Reconciler) lookForExcess(ctx context.Context, o observed) error {
	owner := metav1.GetControllerOf(o.sg)
	if !constraint.Transfers(o.sg.Spec.Topology) || len(o.replicas) <= int(o.sg.Spec.Replicas) || owner == nil {
		return nil
	}
	groups, err := scheduler.GroupsOf(ctx, r.Client, o.sg.Namespace, owner.UID)
	if err != nil {
		return err
	}
	created := make(map[int32]int64, len(o.replicas))
	for ordinal, replica := range o.replicas {
		created[ordinal] = replica.created()
	}
	for ordinal, excess := range gang.Excess(o.sg, groups, o.attempts.recorded.Record(), created) {
		if replica := o.replicas[ordinal]; replica != nil {
			replica.excess = excess
		}
	}
	return nil
}
