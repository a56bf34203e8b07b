// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// repacked measures the search for moves that free 8 whole hosts of one rack, in a hall without a whole free host.
func repacked(_ context.Context, s sizes, r *report) error {
	for _, shape := range []hall.Shape{s.small, s.steady} {
		f := newFragments(shape)
		if _, err := f.plan(); err != nil { // warm up
			return err
		}
		t, err := medians(s.repeats, f.plan)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("moves that free 8 hosts of a rack, %s nodes, %s replicas that may move", number(float64(shape.Hosts)),
			number(float64(len(f.replicas))))
		r.alone(name, "ms", millis(t[0]), 50)
		gangs, moves, gpus, err := f.unblock(s.unblocked)
		if err != nil {
			return err
		}
		r.note("At %s nodes, moves were found for %d of %d gangs of 8 hosts, one after the other: %s GPUs in %s replicas restart for each.",
			number(float64(shape.Hosts)), gangs, s.unblocked, number(float64(gpus)/float64(max(gangs, 1))),
			number(float64(moves)/float64(max(gangs, 1))))
	}
	return nil
}

// fragments is a hall in which every host is partly in use.
type fragments struct {
	place    repack.Place
	planner  *ours.Planner
	replicas []repack.Replica
	made     int
}

// newFragments draws a hall: half of the hosts have a replica of one pod with 4 GPUs, a quarter have replicas of two pods with 8 GPUs each,
// which may move within their zones, and the others have pods that cannot move.
func newFragments(shape hall.Shape) *fragments {
	f, random := &fragments{planner: ours.New(shape.Nodes(), nil)}, hall.Random(3)
	for _, l := range hall.Levels {
		f.place.Levels = append(f.place.Levels, topology.Level{Domain: l.Name(), Key: l.Key()})
	}
	f.place.Cluster = f.planner.Cluster
	shapes := map[int]*topology.Shape{4: topology.ShapeOf(hall.Pod("", 4, "")), 8: topology.ShapeOf(hall.Pod("", 8, ""))}
	for i := 0; i < shape.Hosts; i++ {
		switch kind := random.IntN(16); {
		case kind < 8:
			f.runs(shapes[4], 4, topology.NoLevel, i)
		case kind < 10 && i+1 < shape.Hosts && i/shape.HostsPerRack == (i+1)/shape.HostsPerRack:
			f.runs(shapes[8], 8, int(hall.Rack), i, i+1)
			i++
		default:
			f.stays(random, i)
		}
	}
	return f
}

// runs adds a replica that runs on hosts.
func (f *fragments) runs(shape *topology.Shape, gpus int64, required int, hosts ...int) {
	f.made++
	one := repack.Replica{Namespace: "bench", Graph: fmt.Sprintf("graph-%d", f.made), Component: "worker"}
	one.Group = &placement.Group{Required: required, Preferred: topology.NoLevel}
	for k, host := range hosts {
		name := fmt.Sprintf("mover-%d-%d", f.made, k)
		f.place.Cluster.SetPod(hall.Pod(name, int(gpus), hall.HostName(host)))
		one.Pods = append(one.Pods, repack.Pod{ID: name, Node: hall.HostName(host), GPUs: gpus, Requests: shape.Requests()})
		one.Group.Pods = append(one.Group.Pods, placement.Pod{ID: "move/" + name, Name: name, Shape: shape})
	}
	one.Group.Within = f.place.Levels.PathOf(f.place.Cluster.NodeLabels(hall.HostName(hosts[0])))[:hall.Zone+1]
	f.replicas = append(f.replicas, one)
}

// stays adds a pod that cannot move and uses a part of a host.
func (f *fragments) stays(random *rand.Rand, host int) {
	f.place.Cluster.SetPod(hall.Pod(fmt.Sprintf("fixed-%d", host), 1+random.IntN(hall.GPUs), hall.HostName(host)))
}

// gang returns a waiting gang as the input of the search.
func (f *fragments) gang(name string) (repack.Gang, placement.Demand, error) {
	demand := f.planner.Graph(gangOf8(name))
	result := f.planner.Plan(demand)
	refused := placement.FirstRefused(f.place.Cluster, demand, &result, placement.Options{})
	if refused == nil {
		return repack.Gang{}, demand, fmt.Errorf("%s has a place without moves", name)
	}
	return repack.Gang{Refused: *refused}, demand, nil
}

// plan finds moves for one gang, and leaves the hall unchanged.
func (f *fragments) plan() (time.Duration, error) {
	gang, _, err := f.gang("waiting")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	found := repack.Find(f.place, gang, f.replicas, repack.Limits{InOrder: true})
	took := time.Since(start)
	if found.Plan == nil {
		return 0, fmt.Errorf("no moves found, after %d sets and %d plans", found.Sets, found.Plans)
	}
	return took, nil
}

// unblock executes the moves for up to most gangs, one after the other, until the search finds none, and places each gang.
func (f *fragments) unblock(most int) (gangs, moves int, gpus int64, err error) {
	for gangs < most {
		name := fmt.Sprintf("gang-%d", gangs)
		gang, demand, err := f.gang(name)
		if err != nil {
			return gangs, moves, gpus, err
		}
		found := repack.Find(f.place, gang, f.replicas, repack.Limits{InOrder: true})
		if found.Plan == nil {
			break
		}
		for _, m := range found.Plan.Moves {
			f.move(m)
		}
		if result := f.planner.Plan(demand); !result.Placed() {
			return gangs, moves, gpus, fmt.Errorf("%s has no place after the moves: %w", name, ours.Why(result))
		}
		gangs, moves, gpus = gangs+1, moves+len(found.Plan.Moves), gpus+found.Plan.Cost.GPUs
	}
	return gangs, moves, gpus, nil
}

// move binds the pods of a replica to their new hosts.
func (f *fragments) move(m repack.Move) {
	for i := range m.Replica.Pods {
		pod := &m.Replica.Pods[i]
		f.place.Cluster.DeletePod(pod.ID)
		pod.Node = m.Nodes[i]
		f.place.Cluster.SetPod(hall.Pod(pod.ID, int(pod.GPUs), pod.Node))
	}
}
