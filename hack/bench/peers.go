// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/sandbox/progress"
)

// peerParts are measured with the real KAI Scheduler and Grove beside the control plane, which have to be on the machine.
var peerParts = []part{{name: "peers", what: "created to bound, and the refusal of a full cluster, under each provider", live: true, measure: againstPeers}}

// peerSizes are those of peerParts; live.few is the cluster.
var peerSizes = sizes{live: liveSizes{
	few: hall.Shape{Hosts: 1_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10}, gangs: 30, pods: 8, rounds: 3,
}}

var smallPeerSizes = sizes{smoke: true, live: liveSizes{
	few: hall.Shape{Hosts: 20, HostsPerRack: 5, RacksPerBlock: 2, BlocksPerZone: 1}, gangs: 3, pods: 2, rounds: 1,
}}

// underPeers are the providers that Gates is compared with, and how many times faster it is to be; 0 for no target.
var underPeers = []struct {
	provider, name string
	target         float64
}{
	{specs.PodGroup.Name, "PodGroup", 0},
	{specs.KAI.Name, "KAI", 3},
	{specs.Grove.Name, "Grove with KAI", 10},
}

func againstPeers(ctx context.Context, s sizes, r *report) (err error) {
	set, err := peers.Find(".", peers.Needed(sandbox.Grove)...)
	if err != nil {
		return err
	}
	c, err := live.UpBeside(ctx, s.live.few, set.Beside(progress.Discard))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	ways := []live.Way{live.PackedUnder(specs.Gates.Name, "Gates")}
	for _, p := range underPeers {
		ways = append(ways, live.PackedUnder(p.provider, p.name))
	}
	r.note("Peers: %s.", strings.Join(peers.Versions, ", "))
	if err := bindUnder(ctx, c, s.live, ways, r); err != nil {
		return err
	}
	if err := c.Occupy(ctx); err != nil {
		return err
	}
	return refuseUnder(ctx, c, s.live, ways, r)
}

// bindUnder: the ways take turns; each has been run once before.
func bindUnder(ctx context.Context, c *live.Cluster, s liveSizes, ways []live.Way, r *report) error {
	sides := make([]side, 0, len(ways))
	for _, way := range ways {
		if _, err := c.Bind(ctx, way, min(s.gangs, 3), s.pods); err != nil { // warm
			return err
		}
		sides = append(sides, func() (time.Duration, error) {
			took, err := c.Bind(ctx, way, s.gangs, s.pods)
			fmt.Fprintf(os.Stderr, "  %s: bound after %s\n", way.Name, took.Round(10*time.Millisecond))
			return took, err
		})
	}
	t, err := means(s.rounds, sides...)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d gangs of %d, %s nodes in %d racks, created to bound", s.gangs, s.pods, number(float64(s.few.Hosts)), s.few.Racks())
	for i, p := range underPeers {
		if p.target == 0 {
			r.beside(name, "s", t[0].Seconds(), t[i+1].Seconds(), p.name)
			continue
		}
		r.faster(name, "s", t[0].Seconds(), t[i+1].Seconds(), p.name, p.target)
	}
	return nil
}

// refuseUnder: one gang more than there is capacity for, in turns.
func refuseUnder(ctx context.Context, c *live.Cluster, s liveSizes, ways []live.Way, r *report) error {
	words := make([]string, len(ways))
	sides := make([]side, 0, len(ways))
	for i, way := range ways {
		sides = append(sides, func() (took time.Duration, err error) {
			took, words[i], err = c.Refuse(ctx, way, s.pods)
			fmt.Fprintf(os.Stderr, "  %s: refused after %s\n", way.Name, took.Round(time.Millisecond))
			return took, err
		})
	}
	t, err := means(s.rounds, sides...)
	if err != nil {
		return err
	}
	for i, p := range underPeers {
		r.beside("a gang that does not fit, created to refused with the reason", "s", t[0].Seconds(), t[i+1].Seconds(), p.name)
	}
	for i, way := range ways {
		r.note("The refusal under %s: %q.", way.Name, words[i])
	}
	return nil
}
