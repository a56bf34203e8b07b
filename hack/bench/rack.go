// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/kueue"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// concurrent is the number of gangs that exist at a time while gangs come and go.
const concurrent = 16

// gangOf8 returns one multinode replica over eight whole hosts of one rack.
func gangOf8(name string) hall.Ask {
	return hall.Ask{Name: name, Whole: hall.Cluster, Each: hall.Rack, Gangs: 1, Pods: 8, GPUs: hall.GPUs}
}

// rackGang measures gangs of 8 whole hosts that come and go on a cluster in use.
func rackGang(_ context.Context, s sizes, r *report) error {
	peer, err := newPeerChurn(s.steady)
	if err != nil {
		return err
	}
	sides := []side{func() (time.Duration, error) { return peer.run(s.peerSteps) }}
	for _, shape := range []hall.Shape{s.steady, s.small, s.large} {
		c := newChurn(shape)
		if _, err := c.run(2 * concurrent); err != nil { // warm up
			return err
		}
		sides = append(sides, func() (time.Duration, error) { return c.run(s.steps) })
	}
	t, err := medians(s.repeats, sides...)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("8-pod rack gang and its updates, %s nodes, %s racks", number(float64(s.steady.Hosts)),
		number(float64(s.steady.Racks())))
	r.faster(name, "us", micros(t[1]), micros(t[0]), kueue.Name, 500)
	name = fmt.Sprintf("the same at %s nodes", number(float64(s.large.Hosts)))
	r.atMost(name, "us", micros(t[3]), micros(t[2]), number(float64(s.small.Hosts))+" nodes", 2)
	r.note("Kueue's share of the first row leaves out its snapshot, which every scheduling cycle rebuilds: %s ms at that size.",
		number(millis(peer.snapshotTook)))
	return nil
}

// churn is the planner with gangs that come and go.
type churn struct {
	planner *ours.Planner
	ledger  *hall.Ledger
	asks    []hall.Ask
	graphs  []placement.Demand
	pods    [][]*corev1.Pod
	held    []hall.Answer
	next    int
}

func newChurn(shape hall.Shape) *churn {
	busy := shape.Busy(hall.Random(1))
	c := &churn{planner: ours.New(shape.Nodes(), busy), ledger: hall.NewLedger(shape, busy), held: make([]hall.Answer, concurrent)}
	for i := range concurrent {
		a := gangOf8(fmt.Sprintf("gang-%d", i))
		c.asks, c.graphs = append(c.asks, a), append(c.graphs, c.planner.Graph(a))
		var pods []*corev1.Pod
		for k := range a.Pods {
			pods = append(pods, hall.Pod(ours.PodID(a.Name, 0, k), a.GPUs, ""))
		}
		c.pods = append(c.pods, pods)
	}
	return c
}

// run places steps gangs and returns the time per gang; answers are checked outside the measured time.
func (c *churn) run(steps int) (time.Duration, error) {
	first, results := c.next, make([]placement.Result, 0, steps)
	start := time.Now()
	for range steps {
		results = append(results, c.step())
	}
	took := time.Since(start)
	for i, result := range results {
		slot := (first + i) % concurrent
		if c.held[slot] != nil {
			c.ledger.Give(c.asks[slot], c.held[slot])
		}
		if !result.Placed() {
			return 0, fmt.Errorf("%s: %w", c.asks[slot].Name, ours.Why(result))
		}
		c.held[slot] = ours.AnswerOf(result)
		if err := c.ledger.Take(c.asks[slot], c.held[slot]); err != nil {
			return 0, err
		}
	}
	return took / time.Duration(steps), nil
}

// step removes the pods of the oldest gang, plans a new gang, and adds its bound pods.
func (c *churn) step() placement.Result {
	slot := c.next % concurrent
	if c.next++; c.next > concurrent {
		for _, pod := range c.pods[slot] {
			c.planner.Cluster.DeletePod(topology.PodID(pod))
		}
	}
	result := c.planner.Plan(c.graphs[slot])
	for _, one := range result.Replicas {
		for i, placed := range one.Pods {
			pod := c.pods[slot][i]
			pod.Spec.NodeName = placed.Node
			c.planner.Cluster.SetPod(pod)
		}
	}
	return result
}

// peerChurn is Kueue with gangs that come and go, on one snapshot.
type peerChurn struct {
	snapshot     *kueue.Snapshot
	snapshotTook time.Duration
	ledger       *hall.Ledger
	held         []*kueue.Assignment
	next         int
}

func newPeerChurn(shape hall.Shape) (*peerChurn, error) {
	busy := shape.Busy(hall.Random(1))
	cache, err := kueue.New(shape.Nodes(), busy)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	snapshot, err := cache.Snapshot()
	if err != nil {
		return nil, err
	}
	return &peerChurn{
		snapshot: snapshot, snapshotTook: time.Since(start), ledger: hall.NewLedger(shape, busy), held: make([]*kueue.Assignment, concurrent),
	}, nil
}

func (c *peerChurn) run(steps int) (time.Duration, error) {
	var took time.Duration
	for range steps {
		slot := c.next % concurrent
		ask := gangOf8(fmt.Sprintf("gang-%d", slot))
		request := kueue.NewRequest(ask)
		if old := c.held[slot]; old != nil {
			c.ledger.Give(ask, old.Answer())
		}
		start := time.Now()
		if old := c.held[slot]; old != nil {
			c.snapshot.Remove(old)
		}
		found, why := c.snapshot.Find(request)
		if found == nil {
			return 0, fmt.Errorf("%s: %s", ask.Name, why)
		}
		c.snapshot.Add(found)
		took += time.Since(start)
		if err := c.ledger.Take(ask, found.Answer()); err != nil {
			return 0, err
		}
		c.held[slot] = found
		c.next++
	}
	return took / time.Duration(steps), nil
}
