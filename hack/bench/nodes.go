// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// nodes measures the same packed gangs on a large and on a small cluster, in turns. Both run all the time: their nodes send no heartbeats,
// so the waiting cluster is idle.
func nodes(ctx context.Context, s sizes, r *report) (err error) {
	shapes, took := []hall.Shape{s.operating.small, s.operating.large}, make([][]time.Duration, 2)
	var sides []side
	for i, shape := range shapes {
		c, upErr := live.Up(ctx, shape, true)
		if upErr != nil {
			return upErr
		}
		defer func() { err = errors.Join(err, c.Down()) }()
		one := func() (time.Duration, error) {
			t, err := c.Bind(ctx, live.Packed, s.live.gangs, s.live.pods)
			fmt.Fprintf(os.Stderr, "  %d nodes: %s\n", shape.Hosts, t.Round(10*time.Millisecond))
			took[i] = append(took[i], t)
			return t, err
		}
		if _, err := one(); err != nil { // warm up
			return err
		}
		sides, took[i] = append(sides, one), nil
	}
	t, err := means(s.live.rounds, sides...)
	if err != nil {
		return err
	}
	pods, few, many := float64(s.live.gangs*s.live.pods), number(float64(shapes[0].Hosts)), number(float64(shapes[1].Hosts))
	r.more(fmt.Sprintf("%d packed gangs of %d, %s nodes against %s, created to bound", s.live.gangs, s.live.pods, many, few), "pods/s",
		pods/t[1].Seconds(), pods/t[0].Seconds(), few+" nodes", 0.9)
	r.note("Created to bound: %s nodes %s; %s nodes %s. Nodes of both have no leases and send no heartbeats; the grace period is 87,600 h.",
		few, spread(took[0]), many, spread(took[1]))
	return nil
}
