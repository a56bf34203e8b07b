// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// operatingSizes are the sizes of the rows about a busy operator.
type operatingSizes struct {
	// racks is a hall whose racks are each filled by one gang of waiting pods.
	racks hall.Shape
	// waiting is the number of waiting graphs, and freed how often a rack is freed for one of them.
	waiting, freed int
	// pods is the number of pods when the leader is lost, and lost how often that happens.
	pods, lost int
	// perSecond is the rate of requests, phase the duration of one phase, and gangEvery the interval at which the operator gets a gang.
	perSecond        int
	phase, gangEvery time.Duration
	phases           int
	// small and large are the same racks in clusters of different sizes.
	small, large hall.Shape
}

var fullOperating = operatingSizes{
	racks:   hall.Shape{Hosts: 2_000, HostsPerRack: 8, RacksPerBlock: 1_000, BlocksPerZone: 1},
	waiting: 1_000, freed: 5, pods: 10_000, lost: 3,
	perSecond: 50, phase: 20 * time.Second, gangEvery: 2 * time.Second, phases: 3,
	small: hall.Shape{Hosts: 1_000, HostsPerRack: 40, RacksPerBlock: 1_000, BlocksPerZone: 1},
	large: hall.Shape{Hosts: 10_000, HostsPerRack: 40, RacksPerBlock: 1_000, BlocksPerZone: 1},
}

var smokeOperating = operatingSizes{
	racks:   hall.Shape{Hosts: 32, HostsPerRack: 4, RacksPerBlock: 1_000, BlocksPerZone: 1},
	waiting: 20, freed: 2, pods: 60, lost: 1,
	perSecond: 50, phase: 2 * time.Second, gangEvery: 2 * time.Second, phases: 1,
	small: hall.Shape{Hosts: 32, HostsPerRack: 16, RacksPerBlock: 1_000, BlocksPerZone: 1},
	large: hall.Shape{Hosts: 64, HostsPerRack: 16, RacksPerBlock: 1_000, BlocksPerZone: 1},
}

// freed measures a rack of a full cluster that is freed while many graphs wait for it.
func freed(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	o := s.operating
	crowd, err := c.Crowd(ctx, o.waiting)
	if err != nil {
		return err
	}
	defer crowd.Close()
	var took []time.Duration
	var plans, later float64
	for range o.freed {
		one, err := crowd.Free(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "  released after %s, %v plans until then, %v later\n", one.Took.Round(time.Millisecond), one.Plans, one.Later)
		took, plans, later = append(took, one.Took), max(plans, one.Plans), max(later, one.Later)
	}
	name := fmt.Sprintf("a rack of %s nodes freed while %s graphs wait", number(float64(o.racks.Hosts)), number(float64(o.waiting)))
	r.alone(name+", last pod gone to the next one's release", "ms", millis(meanOf(took)), 1_000)
	r.alone(name+", plans made until then (the most of all rounds)", "plans", plans, 10)
	r.note("A rack freed while %d graphs wait: %s. Plans afterwards, for the others' conditions: at most %s.", o.waiting, spread(took),
		number(later))
	return nil
}

// leader measures the takeover by the standby after the leader is killed.
func leader(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	o := s.operating
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pair, err := c.Pair(ctx, o.pods)
	if err != nil {
		return err
	}
	defer pair.Close()
	var took []time.Duration
	var all live.Lost
	for range o.lost {
		one, err := pair.Lose(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "  lease ended %s after the kill, released %s later; of %d requests %d failed at the kill and %d after\n",
			one.Lease.Round(time.Millisecond), one.Took.Round(time.Millisecond), one.Asked, one.AtKill, one.Failed)
		took = append(took, one.Took)
		all.Asked, all.AtKill, all.Failed = all.Asked+one.Asked, all.AtKill+one.AtKill, all.Failed+one.Failed
		if all.FirstError == nil {
			all.FirstError = one.FirstError
		}
	}
	name := fmt.Sprintf("leader lost with %s pods, %s nodes", number(float64(o.pods)), number(float64(o.racks.Hosts)))
	r.alone(name+", end of its lease to the standby's first release", "ms", millis(meanOf(took)), 10_000)
	r.alone(name+", requests failed once it has left the Service", "requests", float64(all.Failed), 0)
	r.note("Leader lost: %s. Of %d reads and dry-run creates in both versions %d failed before the lost replica had left the Service, %d "+
		"afterwards; the first: %v.",
		spread(took), all.Asked, all.AtKill, all.Failed, all.FirstError)
	return nil
}

// spread lists a few times.
func spread(times []time.Duration) string {
	text := ""
	for i, t := range times {
		if i > 0 {
			text += ", "
		}
		text += number(millis(t))
	}
	return text + " ms in turn"
}
