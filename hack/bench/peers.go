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
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// peerParts need the real KAI Scheduler and Grove alongside the control plane, which must be installed on the machine.
var peerParts = []part{{name: "peers", what: "created to bound, and the refusal of a full cluster, under each provider", live: true,
	measure: againstPeers}}

// peerSizes are the sizes of peerParts; live.few is the cluster.
var peerSizes = sizes{live: liveSizes{
	few: hall.Shape{Hosts: 1_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10}, gangs: 30, pods: 8, rounds: 3,
}}

var smallPeerSizes = sizes{smoke: true, live: liveSizes{
	few: hall.Shape{Hosts: 20, HostsPerRack: 5, RacksPerBlock: 2, BlocksPerZone: 1}, gangs: 3, pods: 2, rounds: 1,
}}

// under is a provider of the measured deployments. target is the target ratio of Gates' speed to the provider's; 0 for no target.
type under struct {
	provider, name string
	target         float64
	// programs that it needs. The others do not run while it is measured.
	programs []string
}

func (u under) way() live.Way { return live.PackedUnder(u.provider, u.name) }

// underAll are the providers: Gates, and those with which it is compared.
var underAll = []under{
	{provider: specs.Gates.Name, name: "Gates"},
	{provider: specs.PodGroup.Name, name: "PodGroup"},
	{specs.KAI.Name, "KAI", 3.5, peers.Programs(peers.Needed(sandbox.KAI)...)},
	{specs.Grove.Name, "Grove with KAI", 10, peers.Programs(peers.Needed(sandbox.Grove)...)},
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
	r.note("Peers: %s.", strings.Join(set.Versions(ctx), "; "))
	if err := bindUnder(ctx, c, s.live, r); err != nil {
		return err
	}
	if err := c.Occupy(ctx); err != nil {
		return err
	}
	return refuseUnder(ctx, c, s.live, r)
}

// bindUnder measures the ways in turns, after one warm-up run each. Only the programs of the measured way run.
func bindUnder(ctx context.Context, c *live.Cluster, s liveSizes, r *report) error {
	sides := make([]side, 0, len(underAll))
	for _, u := range underAll {
		way := u.way()
		if _, err := c.Bind(ctx, way, min(s.gangs, 3), s.pods); err != nil { // warm up
			return err
		}
		sides = append(sides, func() (time.Duration, error) {
			if err := c.RunOnly(ctx, u.programs...); err != nil {
				return 0, err
			}
			took, err := c.Bind(ctx, way, s.gangs, s.pods)
			fmt.Fprintf(os.Stderr, "  %s: bound after %s\n", way.Name, took.Round(10*time.Millisecond))
			return took, err
		})
	}
	c.ForgetCosts()
	t, err := means(s.rounds, sides...)
	if err != nil {
		return err
	}
	for _, u := range underAll {
		r.note("CPU for a gang under %s: %s.", u.name, c.Cost(u.way()))
	}
	name := fmt.Sprintf("%d gangs of %d, %s nodes in %d racks, created to bound", s.gangs, s.pods, number(float64(s.few.Hosts)), s.few.Racks())
	for i, p := range underAll[1:] {
		if p.target == 0 {
			r.beside(name, "s", t[0].Seconds(), t[i+1].Seconds(), p.name)
			continue
		}
		r.faster(name, "s", t[0].Seconds(), t[i+1].Seconds(), p.name, p.target)
	}
	return nil
}

// refuseUnder measures a gang beyond the capacity, under each provider in turns.
func refuseUnder(ctx context.Context, c *live.Cluster, s liveSizes, r *report) error {
	words := make([]string, len(underAll))
	sides := make([]side, 0, len(underAll))
	for i, u := range underAll {
		sides = append(sides, func() (took time.Duration, err error) {
			if err := c.RunOnly(ctx, u.programs...); err != nil {
				return 0, err
			}
			took, words[i], err = c.Refuse(ctx, u.way(), s.pods)
			fmt.Fprintf(os.Stderr, "  %s: refused after %s\n", u.name, took.Round(time.Millisecond))
			return took, err
		})
	}
	t, err := means(s.rounds, sides...)
	if err != nil {
		return err
	}
	for i, p := range underAll[1:] {
		r.beside("a gang that does not fit, created to refused with the reason", "s", t[0].Seconds(), t[i+1].Seconds(), p.name)
	}
	for i, u := range underAll {
		r.note("The refusal under %s: %q.", u.name, words[i])
	}
	return nil
}
