// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// treesEvery is the interval at which the cluster cache drops unused trees.
const treesEvery = 10 * time.Minute

// roundGraphs is the number of graphs that one round evaluates. Graphs that become due during a round join the line after the round. So a
// graph of a higher priority, or the first graph of a namespace, waits for at most one round, however long the line is.
const roundGraphs = 32

// round puts due graphs in line and evaluates the first graphs of the line. The line is ordered by priority, highest first; within one
// priority the namespaces take turns.
func (s *Scheduler) round(ctx context.Context, due []types.NamespacedName) {
	s.dropUnusedTrees(ctx)
	s.lineUp(ctx, due)
	for range roundGraphs {
		next, ok := s.line.Next()
		if !ok || ctx.Err() != nil {
			return
		}
		name := types.NamespacedName{Namespace: next.Namespace, Name: next.Name}
		if dgd := s.read(ctx, name); dgd != nil && s.stillMayUse(name) {
			s.schedule(ctx, dgd)
		}
	}
}

// lineUp adds the due graphs that still exist to the line. If the line then has only one graph, lineUp does not read priorities.
func (s *Scheduler) lineUp(ctx context.Context, due []types.NamespacedName) {
	var found []*nvidiav1beta1.DynamoGraphDeployment
	for _, name := range due {
		if dgd := s.read(ctx, name); dgd != nil {
			found = append(found, dgd)
		}
	}
	var priorities map[types.UID]int32
	if len(found)+s.line.Len() > 1 {
		priorities = s.objects.priorities(ctx, found)
		s.options.Asks.addPriorities(priorities, found)
	}
	for _, dgd := range found {
		s.line.Add(turns.Turn{Namespace: dgd.Namespace, Name: dgd.Name, Priority: priorities[dgd.UID], Created: dgd.CreationTimestamp.Time})
	}
}

// read returns a graph; nil if it is gone, is being deleted, or cannot be read now.
func (s *Scheduler) read(ctx context.Context, name types.NamespacedName) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := s.objects.reader.Get(ctx, name, dgd)
	if apierrors.IsNotFound(err) || (err == nil && dgd.DeletionTimestamp != nil) {
		s.forgetGraph(name)
		return nil
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "reading a graph from the cache", "graph", name)
		s.queue.retry(name, s.options.Clock.Now())
		return nil
	}
	return dgd
}

// dropUnusedTrees drops the trees whose levels belong to no ClusterTopology and to no created graph.
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

func (s *Scheduler) forgetGraph(name types.NamespacedName) {
	s.queue.drop(name)
	s.line.Remove(name.Namespace, name.Name)
	s.placements.forget(name)
	s.announcer.forget(name)
	s.providers.Forget(name)
	s.queue.wakeUp(s.ledger.graphGone(name))
}
