// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

// gangSequence draws more gangs than a hall can hold: 1 to 8 pods of 1, 2, 4 or 8 GPUs in one rack.
func gangSequence(shape hall.Shape, random *rand.Rand) []hall.Ask {
	var asks []hall.Ask
	for left := shape.Hosts * hall.GPUs; left >= 0; {
		a := hall.Ask{Name: fmt.Sprintf("graph-%d", len(asks)), Whole: hall.Cluster, Each: hall.Rack, Gangs: 1, Pods: 1 + random.IntN(8),
			GPUs: 1 << random.IntN(4)}
		left -= a.Size()
		asks = append(asks, a)
	}
	return asks
}

// fillBound compares the GPUs of deployments that the kube-scheduler binds until the operator refuses the first one with those that the
// planner places.
func fillBound(ctx context.Context, s sizes, r *report) (err error) {
	c, err := live.Up(ctx, s.fill, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.live.hasty
	var bound, planned int
	for seed := range s.live.sequences {
		asks := gangSequence(s.fill, hall.Random(uint64(seed)))
		a, err := untilRefused(s.fill, asks, ours.New(s.fill.Nodes(), nil))
		if err != nil {
			return err
		}
		planned += a
		err = c.FillWithDeployments(ctx, func(f *live.DeploymentFiller) error {
			b, err := untilRefused(s.fill, asks, f)
			bound += b
			return err
		})
		if err != nil {
			return err
		}
	}
	all := float64(s.live.sequences * s.fill.Hosts * hall.GPUs)
	r.floor(fmt.Sprintf("GPUs bound before the first refusal, %d nodes, share of all", s.fill.Hosts), "%", 100*float64(bound)/all,
		100*float64(planned)/all, "the planner alone", 97)
	r.note("Bound by the kube-scheduler: means of %d random sequences of gangs of 1 to 8 pods of 1, 2, 4 or 8 GPUs.", s.live.sequences)
	return nil
}
