// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// bare measures packed deployments and two kinds of pods with the same pins, in turns, at two numbers of racks. Row bind measures it
// alongside its other ways.
func bare(ctx context.Context, s sizes, r *report) error {
	return errors.Join(bareAt(ctx, s.live, s.live.few, r), bareAt(ctx, s.live, s.live.many, r))
}

func bareAt(ctx context.Context, s liveSizes, shape hall.Shape, r *report) (err error) {
	c, err := live.Up(ctx, shape, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.hasty
	released, gated, err := c.AsReleased(ctx, s.gangs, s.pods) // this also warms up
	if err != nil {
		return err
	}
	speed := map[string]float64{}
	if err := r.timeWays(ctx, c, s, shape, s.rounds, []live.Way{live.Packed, released, gated}, speed); err != nil {
		return err
	}
	r.againstBare(s, shape, speed)
	return nil
}

// createdToBound returns the name of the rows of ways.
func createdToBound(s liveSizes, shape hall.Shape) string {
	return fmt.Sprintf("%d gangs of %d, %s nodes in %d racks, created to bound", s.gangs, s.pods, number(float64(shape.Hosts)), shape.Racks())
}

// againstBare adds the row of packed deployments against bare pods, from the pods per second of both, and two rows that show how much of
// the difference is the price of all-or-nothing by gates.
func (r *report) againstBare(s liveSizes, shape hall.Shape, speed map[string]float64) {
	name, gated := createdToBound(s, shape), speed[live.GatedName]
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.AsReleasedName], live.AsReleasedName, 0.6)
	r.more(name, "pods/s", speed[live.Packed.Name], gated, live.GatedName, 0.75)
	r.compare(name+": "+live.GatedName, "pods/s", gated, speed[live.AsReleasedName], live.AsReleasedName)
}
