// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"time"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// lookForEnds finds deleted pods that do not terminate in time, and the time at which the next deleted pod becomes overdue. If the node of
// an overdue pod is not ready after HoldFor, the pod's replica is lost, because it is unknown whether and when the pod terminates. The
// replica's capacity is then no longer held, and the replica is created under another ordinal.
func (p *pass) lookForEnds(ctx context.Context) {
	now := p.refusals.clock()
	ready := func(node string) bool { return p.nodes().ready(ctx, node) }
	for _, one := range p.replicas {
		for _, pod := range one.leaving {
			by, deleted := gang.EndsBy(pod)
			if !deleted { // it is deleted with its set
				continue
			}
			if why := gang.NotEnding(pod, now, ready); why != "" {
				one.notEnding = append(one.notEnding, why)
			}
			held := pod.DeletionTimestamp.Add(p.HoldFor)
			if pod.Spec.NodeName != "" && !now.Before(held) && !now.Before(by) && !ready(pod.Spec.NodeName) {
				one.lostNode = true
			}
			for _, at := range []time.Time{by, held} {
				if left := at.Sub(now); left > 0 {
					p.ends = earliest(p.ends, left)
				}
			}
		}
	}
}
