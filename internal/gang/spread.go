// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// spreadOf says how the replicas of a component are spread, and where those are that stay; nil when they are not spread. One that is recreated is counted
// where it goes next, and one that is released in part by the planner.
func (r *Request) spreadOf(t *trellisv1alpha1.ResolvedTopology, states []replicaState) *placement.Spread {
	if !constraint.Spread(t) {
		return nil
	}
	spread := &placement.Spread{Required: r.Graph.Levels.Index(t.SpreadDomain), Preferred: r.Graph.Levels.Index(t.PreferredSpreadDomain)}
	for _, state := range states {
		if len(state.open) > 0 && len(state.closed) == 0 && state.absent == 0 && !state.replaced() {
			spread.At = append(spread.At, state.path)
		}
	}
	return spread
}
