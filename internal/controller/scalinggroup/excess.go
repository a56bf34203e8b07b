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

// lookForExcess ranks the replicas of a prefill or decode component for a scale-in; see [gang.Excess].
func (p *pass) lookForExcess(ctx context.Context) error {
	owner := metav1.GetControllerOf(p.sg)
	if !constraint.Transfers(p.sg.Spec.Topology) || len(p.replicas) <= int(p.sg.Spec.Replicas) || owner == nil {
		return nil
	}
	groups, err := scheduler.GroupsOf(ctx, p.Client, p.sg.Namespace, owner.UID)
	if err != nil {
		return err
	}
	created := make(map[int32]int64, len(p.replicas))
	for ordinal, replica := range p.replicas {
		created[ordinal] = replica.created()
	}
	for ordinal, excess := range gang.Excess(p.sg, groups, p.attempts.recorded.Record(), created) {
		if replica := p.replicas[ordinal]; replica != nil {
			replica.excess = excess
		}
	}
	return nil
}
