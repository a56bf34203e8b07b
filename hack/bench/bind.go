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
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

const inTreeName = "in-tree PodGroups"

// liveSizes are the sizes of the rows on a control plane.
type liveSizes struct {
	// few and many are the same hosts in few and in many racks.
	few, many   hall.Shape
	gangs, pods int
	rounds      int
	// hasty skips waiting for a quiet machine.
	hasty bool
	// deployments is the number of deployments created without pods.
	deployments int
	// sequences is the number of sequences of graphs with which the in-tree scheduler fills a hall.
	sequences int
}

var fullLive = liveSizes{
	few:   hall.Shape{Hosts: 2_000, HostsPerRack: 40, RacksPerBlock: 1_000, BlocksPerZone: 1},
	many:  hall.Shape{Hosts: 2_000, HostsPerRack: 8, RacksPerBlock: 1_000, BlocksPerZone: 1},
	gangs: 60, pods: 8, rounds: 6, deployments: 20, sequences: 3,
}

var smokeLive = liveSizes{
	few:   hall.Shape{Hosts: 32, HostsPerRack: 16, RacksPerBlock: 1_000, BlocksPerZone: 1},
	many:  hall.Shape{Hosts: 32, HostsPerRack: 4, RacksPerBlock: 1_000, BlocksPerZone: 1},
	gangs: 4, pods: 4, rounds: 1, hasty: true, deployments: 2, sequences: 1,
}

// bind measures the same pods in several ways through one control plane, at two numbers of racks.
func bind(ctx context.Context, s sizes, r *report) error {
	few, err := bindAt(ctx, s.live, s.live.few, 1, r)
	if err != nil {
		return err
	}
	many, err := bindAt(ctx, s.live, s.live.many, 1.7, r)
	if err != nil {
		return err
	}
	r.more(fmt.Sprintf("the same in %d racks against %d", s.live.many.Racks(), s.live.few.Racks()), "pods/s",
		many[live.Packed.Name], few[live.Packed.Name], fmt.Sprintf("%d racks", s.live.few.Racks()), 0.9)
	r.note("In-tree PodGroups: %s pods/s in %d racks, %s in %d.", number(few[live.InTree.Name]), s.live.few.Racks(),
		number(many[live.InTree.Name]), s.live.many.Racks())
	return nil
}

// pinnings are measured alongside the row, to find the fastest pin.
var pinnings = []live.Way{live.Bare, live.ByLabel, live.ByNodeNames, live.ByHostnames}

// bindAt returns the pods per second of every way. inTree is the target ratio of packed deployments to in-tree PodGroups.
func bindAt(ctx context.Context, s liveSizes, shape hall.Shape, inTree float64, r *report) (speed map[string]float64, err error) {
	c, err := live.Up(ctx, shape, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.hasty
	if _, err := c.Bind(ctx, live.Plain, s.gangs, s.pods); err != nil { // warm up
		return nil, err
	}
	released, gated, err := c.AsReleased(ctx, s.gangs, s.pods)
	if err != nil {
		return nil, err
	}
	speed = map[string]float64{}
	ways := []live.Way{live.Plain, live.Packed, live.InTree, released, gated}
	if err := r.timeWays(ctx, c, s, shape, s.rounds, ways, speed); err != nil {
		return nil, err
	}
	if err := r.timeWays(ctx, c, s, shape, 1, pinnings, speed); err != nil {
		return nil, err
	}
	name := createdToBound(s, shape)
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.Plain.Name], live.Plain.Name, 1)
	r.more(name, "pods/s", speed[live.Packed.Name], speed[live.InTree.Name], inTreeName, inTree)
	r.againstBare(s, shape, speed)
	text := fmt.Sprintf("Pods/s in %d racks by how bare pods are pinned:", shape.Racks())
	for _, way := range pinnings {
		text += fmt.Sprintf(" %s %s;", way.Name, number(speed[way.Name]))
	}
	r.note("%s", text[:len(text)-1]+".")
	return speed, nil
}

// timeWays adds the pods per second of some ways, which take turns, and a remark on where their time goes.
func (r *report) timeWays(ctx context.Context, c *live.Cluster, s liveSizes, shape hall.Shape, rounds int, ways []live.Way,
	speed map[string]float64) error {
	sides := make([]side, 0, len(ways))
	c.ForgetCosts()
	for _, way := range ways {
		sides = append(sides, func() (time.Duration, error) {
			took, err := c.Bind(ctx, way, s.gangs, s.pods)
			fmt.Fprintf(os.Stderr, "  %s: %s\n", way.Name, took.Round(10*time.Millisecond))
			return took, err
		})
	}
	t, err := means(rounds, sides...)
	if err != nil {
		return err
	}
	for i, way := range ways {
		speed[way.Name] = float64(s.gangs*s.pods) / t[i].Seconds()
		r.note("CPU for a gang, %s in %d racks: %s.", way.Name, shape.Racks(), c.Cost(way))
	}
	return nil
}

// fillInTree places the first of fill's sequences, one graph at a time, through the kube-scheduler.
func fillInTree(ctx context.Context, s sizes, r *report) (err error) {
	c, err := live.Up(ctx, s.fill, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	c.Hasty = s.live.hasty
	var our, peer int
	for seed := range s.live.sequences {
		asks := sequence(s.fill, hall.Random(uint64(seed)))
		a, err := untilRefused(s.fill, asks, ours.New(s.fill.Nodes(), nil))
		if err != nil {
			return err
		}
		our += a
		err = c.Fill(ctx, func(f *live.Filler) error {
			b, err := untilRefused(s.fill, asks, f)
			peer += b
			return err
		})
		if err != nil {
			return err
		}
	}
	n := float64(s.live.sequences)
	r.more(fmt.Sprintf("GPUs before the first refusal, %d nodes", s.fill.Hosts), "GPUs", float64(our)/n, float64(peer)/n, inTreeName, 1)
	r.note("Against the in-tree scheduler: the first %d of the sequences.", s.live.sequences)
	return nil
}
