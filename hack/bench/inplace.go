// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/live"
	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// created is a way in which an operator creates gangs whose place is known.
type created struct {
	name, flag string
}

var createdWays = []created{{"created in place", "--gate-all-pods=false"}, {"created gated", "--gate-all-pods=true"}}

// inPlace compares one gang on an idle cluster, created in place and gated.
func inPlace(ctx context.Context, s sizes, r *report) error {
	first := map[string][]time.Duration{}
	for _, way := range createdWays {
		took, err := firstBound(ctx, s.live, way)
		if err != nil {
			return err
		}
		first[way.name] = took
		r.note("One gang of %d on an idle cluster, %s, created to bound: median %s ms, p99 %s ms of %d.",
			s.live.pods, way.name, number(millis(quantile(took, 0.5))), number(millis(quantile(took, 0.99))), len(took))
	}
	inPlace, gated := quantile(first[createdWays[0].name], 0.5), quantile(first[createdWays[1].name], 0.5)
	r.faster(fmt.Sprintf("one gang of %d on an idle cluster, created to bound", s.live.pods), "ms", millis(inPlace), millis(gated),
		createdWays[1].name, 1)
	return nil
}

// firstBound returns the times of single gangs, one after the other, each created on an idle cluster.
func firstBound(ctx context.Context, s liveSizes, way created) (took []time.Duration, err error) {
	c, err := live.Up(ctx, s.few, true, func(o *sandbox.Options) {
		o.Manager.Args = append(o.Manager.Args, way.flag)
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.hasty
	for range 1 + 10*s.rounds {
		one, err := c.Bind(ctx, live.Packed, 1, s.pods)
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	return took[1:], nil // the first warms up
}
