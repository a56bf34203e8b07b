// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
)

var smallHall = hall.Shape{Hosts: 8, HostsPerRack: 2, RacksPerBlock: 2, BlocksPerZone: 1}

// optimal compares deployments of several different services in one zone on a few hosts with an exhaustive search.
func optimal(_ context.Context, s sizes, r *report) error {
	random, nodes := hall.Random(7), smallHall.Nodes()
	found, exist := 0, 0
	for range s.cases {
		busy, asks := drawCase(random)
		packable := hall.NewLedger(smallHall, busy).Packable(hall.Zone, asks)
		answers, why := ours.New(nodes, busy).PlaceTogether(hall.Zone, asks)
		if why == nil {
			if err := hall.NewLedger(smallHall, busy).TakeTogether(hall.Zone, asks, answers); err != nil {
				return err
			}
			found++
		}
		if packable {
			exist++
		}
		if why == nil && !packable {
			return fmt.Errorf("placed what brute force holds impossible: %+v", asks)
		}
	}
	r.more(fmt.Sprintf("packings found, %s random small clusters", number(float64(s.cases))), "found", float64(found), float64(exist),
		"brute force", 1)
	return nil
}

// drawCase draws hosts in use and a deployment of two to four services, about as large as the free capacity.
func drawCase(random *rand.Rand) ([]*corev1.Pod, []hall.Ask) {
	var busy []*corev1.Pod
	for i := range smallHall.Hosts {
		if used := random.IntN(hall.GPUs + 1); used > 0 {
			busy = append(busy, hall.Pod(fmt.Sprintf("busy-%d", i), used, hall.HostName(i)))
		}
	}
	var asks []hall.Ask
	for i := range 2 + random.IntN(3) {
		asks = append(asks, hall.Ask{
			Name: fmt.Sprintf("service-%d", i), Whole: hall.Zone, Each: []hall.Level{hall.Zone, hall.Rack}[random.IntN(2)],
			Gangs: 1, Pods: 1 + random.IntN(2), GPUs: 1 + random.IntN(5),
		})
	}
	return busy, asks
}
