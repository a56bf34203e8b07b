// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// created is how an operator creates gangs whose place is known.
type created struct {
	name, flag string
}

var createdWays = []created{{"created in place", "--gate-all-pods=false"}, {"created gated", "--gate-all-pods=true"}}

// inPlace: the same gangs as in the row bind, by an operator that creates them in place, at two numbers of racks; and one gang on an idle
// cluster, created in place and gated.
func inPlace(ctx context.Context, s sizes, r *report) error {
	for _, at := range []struct {
		shape  hall.Shape
		inTree float64
	}{{s.live.few, 1}, {s.live.many, 1.7}} {
		if err := inPlaceAt(ctx, s.live, at.shape, at.inTree, r); err != nil {
			return err
		}
	}
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

func inPlaceAt(ctx context.Context, s liveSizes, shape hall.Shape, inTree float64, r *report) (err error) {
	c, err := upWith(ctx, shape, createdWays[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.hasty
	if _, err := c.Bind(ctx, live.Plain, s.gangs, s.pods); err != nil { // warm
		return err
	}
	released, gated, err := c.AsReleased(ctx, s.gangs, s.pods)
	if err != nil {
		return err
	}
	speed := map[string]float64{}
	if err := r.timeWays(ctx, c, s, shape, s.rounds, []live.Way{live.Plain, live.Packed, live.InTree, released, gated}, speed); err != nil {
		return err
	}
	name := createdToBound(s, shape) + ", created in place"
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.Plain.Name], live.Plain.Name, 1)
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.InTree.Name], inTreeName, inTree)
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.GatedName], live.GatedName, 0.75)
	return nil
}

// firstBound are the times of single gangs, one after the other, each on a cluster that is idle before.
func firstBound(ctx context.Context, s liveSizes, way created) (took []time.Duration, err error) {
	c, err := upWith(ctx, s.few, way)
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
	return took[1:], nil // the first warms
}

func upWith(ctx context.Context, shape hall.Shape, way created) (*live.Cluster, error) {
	return live.Up(ctx, shape, true, func(o *sandbox.Options) { o.Manager.Args = append(o.Manager.Args, way.flag) })
}
