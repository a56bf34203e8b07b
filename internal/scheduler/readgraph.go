// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// observe reads all objects that concern one graph, and its GraphPlacement.
func (s *Scheduler) observe(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (gang.Observation, recorded, error) {
	o, err := s.objects.observe(ctx, dgd)
	if err != nil {
		return o, recorded{}, err
	}
	was, err := s.placements.of(ctx, dgd)
	o.Record = was.record
	return o, was, err
}

// rereading returns a function that reads a graph again, for a decision under the lock of the ledger, and sets *was to the graph's
// GraphPlacement. The function keeps the provider's earlier answers, because asking the provider again may take long.
func (s *Scheduler) rereading(ctx context.Context, o gang.Observation, was *recorded) func() (gang.Observation, error) {
	return func() (gang.Observation, error) {
		now, read, err := s.observe(ctx, o.DGD)
		*was, now.Bars, now.Objections = read, o.Bars, o.Objections
		return now, err
	}
}

func (s *Scheduler) notRead(ctx context.Context, name types.NamespacedName, err error) {
	log.FromContext(ctx).Error(err, "reading a graph's objects from the cache", "graph", name)
	s.queue.retry(name, s.options.Clock.Now())
}
