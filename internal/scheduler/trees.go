// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// treesEvery is how often the cluster cache drops the trees that nothing uses any more.
const treesEvery = 10 * time.Minute

// treeUse is what one tree of the cluster cache is made for.
type treeUse struct {
	levels   topology.Levels
	selector map[string]string
}

// dropUnusedTrees drops the trees of levels that neither a ClusterTopology has any more nor a graph was created with. Each takes memory by the
// number of nodes, and is kept up to date with every one of them.
func (s *Scheduler) dropUnusedTrees(ctx context.Context) {
	now := s.options.Clock.Now()
	if now.Sub(s.treesDropped) < treesEvery {
		return
	}
	s.treesDropped = now
	s.mu.Lock()
	defer s.mu.Unlock()
	used, err := s.usedTrees(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "reading from the cache which topologies are in use")
		return
	}
	s.cluster.KeepTrees(func(levels topology.Levels, selector map[string]string) bool {
		return slices.ContainsFunc(used, treeUse{levels, selector}.equal)
	})
}

// usedTrees lists each tree in use once; the one without levels, of graphs without a topology, is always.
func (s *Scheduler) usedTrees(ctx context.Context) ([]treeUse, error) {
	used := []treeUse{{}}
	add := func(u treeUse) {
		if !slices.ContainsFunc(used, u.equal) {
			used = append(used, u)
		}
	}
	profiles, groups := &grovev1alpha1.ClusterTopologyList{}, &trellisv1alpha1.ScalingGroupList{}
	for _, list := range []client.ObjectList{profiles, groups} {
		if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	for i := range profiles.Items {
		add(treeUse{gang.LevelsOfProfile(&profiles.Items[i]), profiles.Items[i].Spec.NodeSelector})
	}
	for i := range groups.Items {
		if t := groups.Items[i].Spec.Topology; t != nil {
			add(treeUse{gang.LevelsOf(t), t.NodeSelector})
		}
	}
	return used, nil
}

func (u treeUse) equal(o treeUse) bool {
	return slices.Equal(u.levels, o.levels) && maps.Equal(u.selector, o.selector)
}
