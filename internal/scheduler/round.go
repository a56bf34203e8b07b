// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// roundGraphs is how many graphs one round looks at. What becomes due meanwhile joins the line after it, so a graph of a higher priority, or the
// first one of a namespace, waits for no more than one round, however long the line is.
const roundGraphs = 32

// round puts graphs in line and looks at the first ones. The line holds what is due: higher priority first, and within one priority the
// namespaces in turn.
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

// lineUp puts the graphs that still exist in line. Where there is only one, its priority is of no account.
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
	}
	for _, dgd := range found {
		s.line.Add(turns.Graph{Namespace: dgd.Namespace, Name: dgd.Name, Priority: priorities[dgd.UID], Created: dgd.CreationTimestamp.Time})
	}
}

// read returns a graph, or nil when it is gone or going, or cannot be read now.
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
