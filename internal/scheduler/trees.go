// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// treesEvery is how often the cluster cache drops the trees that nothing uses any more.
const treesEvery = 10 * time.Minute

// dropUnusedTrees drops the trees of levels that neither a ClusterTopology has any more nor a graph was created with.
func (s *Scheduler) dropUnusedTrees(ctx context.Context) {
	now := s.options.Clock.Now()
	if now.Sub(s.treesDropped) < treesEvery {
		return
	}
	s.treesDropped = now
	err := s.ledger.keepTrees(func() (func(topology.Levels, map[string]string) bool, error) { return s.objects.treesInUse(ctx) })
	if err != nil {
		log.FromContext(ctx).Error(err, "reading from the cache which topologies are in use")
	}
}
