// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// options are the options of one run.
type options struct {
	sizes   sizes
	parts   []part
	only    []string
	sandbox bool
}

// part is a set of rows measured together.
type part struct {
	name, what string
	// live means that the part needs a control plane.
	live bool
	// within is another part that also measures this one: on its own it runs only if selected by name.
	within  string
	measure func(context.Context, sizes, *report) error
}

var parts = []part{
	{name: "rack", what: "one rack gang in steady state", measure: rackGang},
	{name: "thousand", what: "a gang of a thousand pods, cold", measure: thousandPods},
	{name: "many", what: "many small gangs", measure: manyGangs},
	{name: "refusal", what: "saying why nothing fits", measure: refusal},
	{name: "fill", what: "filling a cluster until the first refusal", measure: fill},
	{name: "optimal", what: "finding a packing whenever there is one", measure: optimal},
	{name: "counted", what: "claims of devices, and rules about other pods", measure: counted},
	{name: "repack", what: "moves that free a rack", measure: repacked},
	{name: "memory", what: "memory of the tree", measure: memory},
	{name: "fill-intree", what: "the same through the in-tree scheduler", live: true, measure: fillInTree},
	{name: "fill-bound", what: "deployments bound until the first refusal", live: true, measure: fillBound},
	{name: "bind", what: "created to bound in a sandbox", live: true, measure: bind},
	{name: "create", what: "what writing a deployment costs the API server, against the version that stored v1alpha1", live: true,
		measure: create},
	{name: "bare", what: "packed deployments against bare pods pinned the same way", live: true, within: "bind", measure: bare},
	{name: "inplace", what: "one gang on an idle cluster, created in place and gated", live: true, measure: inPlace},
	{name: "writes", what: "what is written for a graph", live: true, measure: writes},
	{name: "requests", what: "what single requests cost", live: true, within: "bind", measure: onFew(requests)},
	{name: "podsize", what: "what the pods of a gang weigh", live: true, measure: onFew(podSize)},
	{name: "ready300", what: "many graphs at once until all are Ready", live: true, measure: onFew(ready)},
	{name: "opmemory", what: "the operator's memory in a full cluster", live: true, measure: onFew(opMemory)},
	{name: "freed", what: "a rack freed while many graphs wait", live: true, measure: onRacks(freed)},
	{name: "leader", what: "the leader lost", live: true, measure: onRacks(leader)},
	{name: "admission", what: "admission and conversion beside a working operator", live: true, measure: onFew(admission)},
	{name: "nodes", what: "created to bound on a large and on a small cluster", live: true, measure: nodes},
}

// measurement measures on a running cluster.
type measurement func(context.Context, *live.Cluster, sizes, *report) error

func onFew(m measurement) func(context.Context, sizes, *report) error {
	return on(func(s sizes) hall.Shape { return s.live.few }, m)
}

func onRacks(m measurement) func(context.Context, sizes, *report) error {
	return on(func(s sizes) hall.Shape { return s.operating.racks }, m)
}

// on starts a cluster for a measurement.
func on(shape func(sizes) hall.Shape, m measurement) func(context.Context, sizes, *report) error {
	return func(ctx context.Context, s sizes, r *report) (err error) {
		c, err := live.Up(ctx, shape(s), true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Down()) }()
		c.Hasty = s.live.hasty
		return m(ctx, c, s, r)
	}
}

func (o options) chosen() ([]part, error) {
	for _, name := range o.only {
		if !slices.ContainsFunc(o.parts, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("there is no row %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(o.parts), func(p part) bool {
		if len(o.only) > 0 {
			return !slices.Contains(o.only, p.name)
		}
		return p.within != "" || p.live && !o.sandbox
	}), nil
}

// sizes are the sizes of all parts.
type sizes struct {
	smoke bool
	// repeats of a measurement, whose median counts.
	repeats int
	// steady is the hall of the rack gang; small and large are halls for comparing its cost.
	steady, small, large hall.Shape
	// steps of the rack gang in one repeat, and of the peer's.
	steps, peerSteps int
	thousand         hall.Shape
	thousandPods     int
	many             hall.Shape
	gangs            int
	full             hall.Shape
	fill             hall.Shape
	sequences        int
	cases            int
	// unblocked is the number of gangs for which moves are searched, one after the other.
	unblocked   int
	memoryNodes int
	memoryPods  int
	// devices is the hall with device claims, ruled the hall with pods that have rules about other pods.
	devices, ruled hall.Shape
	claims         int
	// deviceNodes and memoryClaims are the sizes of the tree with devices.
	deviceNodes, memoryClaims int
	live                      liveSizes
	operating                 operatingSizes
}

var fullSizes = sizes{
	repeats: 9,
	steady:  hall.Shape{Hosts: 40_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10},
	small:   hall.Shape{Hosts: 1_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10},
	large:   hall.Shape{Hosts: 100_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10},
	steps:   2_000, peerSteps: 5,
	thousand: hall.Shape{Hosts: 2_500, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 4}, thousandPods: 1_000,
	many: hall.Shape{Hosts: 5_000, HostsPerRack: 100, RacksPerBlock: 10, BlocksPerZone: 5}, gangs: 2_250,
	full: hall.Shape{Hosts: 5_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 4},
	fill: hall.Shape{Hosts: 512, HostsPerRack: 16, RacksPerBlock: 8, BlocksPerZone: 2}, sequences: 20,
	cases:       2_000,
	unblocked:   20,
	memoryNodes: 100_000, memoryPods: 200_000,
	devices: hall.Shape{Hosts: 2_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 4}, claims: 10_000,
	ruled:       hall.Shape{Hosts: 10_000, HostsPerRack: 16, RacksPerBlock: 25, BlocksPerZone: 10},
	deviceNodes: 10_000, memoryClaims: 50_000,
	live: fullLive, operating: fullOperating,
}

var smokeSizes = sizes{
	smoke: true, repeats: 1,
	steady: hall.Shape{Hosts: 1_200, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2},
	small:  hall.Shape{Hosts: 800, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2},
	large:  hall.Shape{Hosts: 1_600, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2},
	steps:  50, peerSteps: 50,
	thousand: hall.Shape{Hosts: 200, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2}, thousandPods: 60,
	many: hall.Shape{Hosts: 100, HostsPerRack: 20, RacksPerBlock: 5, BlocksPerZone: 1}, gangs: 45,
	full: hall.Shape{Hosts: 200, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2},
	fill: hall.Shape{Hosts: 64, HostsPerRack: 8, RacksPerBlock: 4, BlocksPerZone: 1}, sequences: 3,
	cases:       100,
	unblocked:   3,
	memoryNodes: 1_000, memoryPods: 2_000,
	devices: hall.Shape{Hosts: 200, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2}, claims: 700,
	ruled:       hall.Shape{Hosts: 400, HostsPerRack: 16, RacksPerBlock: 5, BlocksPerZone: 2},
	deviceNodes: 500, memoryClaims: 2_000,
	live: smokeLive, operating: smokeOperating,
}
