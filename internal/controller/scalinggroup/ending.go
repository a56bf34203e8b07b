// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"time"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// lookForEnds finds pods that were deleted and do not end, and the time until another one has not ended in time. A
// replica is lost when the node of such a pod is not ready: no one knows whether and when it ends. It is made under another ordinal once
// the capacity of the old one is not held any more.
func (p *pass) lookForEnds(ctx context.Context) {
	now := p.refusals.clock()
	ready := func(node string) bool { return p.nodes().ready(ctx, node) }
	for _, one := range p.replicas {
		for _, pod := range one.leaving {
			by, deleted := gang.EndsBy(pod)
			if !deleted { // it goes with its set
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
