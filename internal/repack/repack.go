// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Rest is how long a replica that moved does not move again, unless limits say otherwise.
const Rest = time.Hour

// Replica is a running replica that may move.
type Replica struct {
	// Namespace and Graph name its deployment, Component and Ordinal the replica there.
	Namespace, Graph, Component string
	Ordinal                     int
	// Priority is the highest one of its pods.
	Priority int32
	// Created is when the youngest of its pods was created. A move creates all pods of a replica again.
	Created time.Time
	// Pods are its bound pods.
	Pods []Pod
	// Group is the replica as it is placed again: with IDs that no pod has, and bounded by the domain of its graph.
	Group *placement.Group
}

// Name is what messages call the replica: team-a/chat Worker-0.
func (r *Replica) Name() string {
	return fmt.Sprintf("%s/%s %s-%d", r.Namespace, r.Graph, r.Component, r.Ordinal)
}

// Pod is a bound pod of a replica.
type Pod struct {
	ID, Node string
	// GPUs restart when the pod does.
	GPUs     int64
	Requests []topology.Request
}

// GPUs that restart when the replica moves.
func (r *Replica) GPUs() (n int64) {
	for i := range r.Pods {
		n += r.Pods[i].GPUs
	}
	return n
}

// Gang is a gang that waits.
type Gang struct {
	placement.Refused
	Priority int32
}

// Limits of the moves of one plan.
type Limits struct {
	// MaxGPUs is how many GPUs may restart; 0: any number.
	MaxGPUs int64
	// Now decides which replicas moved within Rest; the zero time: none did. Rest is by default [Rest].
	Now  time.Time
	Rest time.Duration
	// InOrder: only moves to places that are free while the replica runs.
	InOrder bool
}

// Place is what a plan is made on. The cluster is changed and put back.
type Place struct {
	Cluster      *topology.Cluster
	Levels       topology.Levels
	NodeSelector map[string]string
}

// SameTopology reports whether replicas that are placed by these levels and node selector can be planned together with others of the place.
// Replicas without levels can, too: any domain holds them.
func (p *Place) SameTopology(levels topology.Levels, nodeSelector map[string]string) bool {
	return len(levels) == 0 && len(nodeSelector) == 0 || slices.Equal(levels, p.Levels) && maps.Equal(nodeSelector, p.NodeSelector)
}

// Cost of moves. The parts are compared in their order.
type Cost struct {
	GPUs     int64
	Replicas int
	// Priority is the highest one of the replicas; 0 without any.
	Priority int32
}

// Compare orders costs, the lower one first.
func (c Cost) Compare(o Cost) int {
	return cmp.Or(cmp.Compare(c.GPUs, o.GPUs), cmp.Compare(c.Replicas, o.Replicas), cmp.Compare(c.Priority, o.Priority))
}

// CostOf a set of replicas.
func CostOf(replicas []*Replica) Cost {
	var c Cost
	for i, r := range replicas {
		c.GPUs += r.GPUs()
		c.Replicas++
		if i == 0 || r.Priority > c.Priority {
			c.Priority = r.Priority
		}
	}
	return c
}

// Move is one replica that moves.
type Move struct {
	Replica *Replica
	// From and To are the domains that hold its pods, before and after.
	From, To topology.Path
	// Nodes of its pods afterwards, in the order of the pods of its group.
	Nodes []string
	// InPlace: its new place is not free while the replica runs.
	InPlace bool
}

// Plan is a set of moves, in an order in which the place of each is free once those before it are done, except for those InPlace.
type Plan struct {
	// Domains that the moves free.
	Domains []topology.Path
	Cost    Cost
	Moves   []Move
	// Nodes of the gang's pods, sorted by name; empty for domains that no gang waits for.
	Nodes []string
}

// inOrder reports whether each replica moves while it runs.
func (p *Plan) inOrder() bool {
	return !slices.ContainsFunc(p.Moves, func(m Move) bool { return m.InPlace })
}

// Result is the answer of [Find] and [Free].
type Result struct {
	// Plan is nil when no moves were found.
	Plan *Plan
	// Considered counts the replicas that may move, after priorities and rest; Rested those that moved within [Limits].Rest.
	Considered, Rested int
	// OverLimit is the least number of GPUs of a set of moves that may free a place and has more than [Limits].MaxGPUs; 0: there is none.
	OverLimit int64
	// Cut: the search ended before every set of moves was looked at.
	Cut bool
	// Sets and Plans count what was looked at, and what was planned on the copy.
	Sets, Plans int

	pushed int
}

// eligible are the replicas that may move for a gang of a priority, and how many moved a short time ago.
func eligible(replicas []Replica, priority int32, limits Limits) (out []*Replica, rested int) {
	for i := range replicas {
		r := &replicas[i]
		switch {
		case r.Priority > priority || len(r.Pods) == 0:
		case !limits.Now.IsZero() && limits.Now.Sub(r.Created) < cmp.Or(limits.Rest, Rest):
			rested++
		default:
			out = append(out, r)
		}
	}
	return out, rested
}

// Find returns the cheapest moves that free a place for a gang. It returns a plan without moves when the gang has a place already.
func Find(p Place, gang Gang, replicas []Replica, limits Limits) Result {
	list, rested := eligible(replicas, gang.Priority, limits)
	f := newFinder(p, gang, list, limits)
	f.result.Considered, f.result.Rested = len(list), rested
	f.search()
	return f.result
}

// nodesOf lists the nodes of everything in a group.
func nodesOf(g *placement.GroupResult) (nodes []string) {
	for _, pod := range g.Pods {
		nodes = append(nodes, pod.Node)
	}
	for _, sub := range g.Groups {
		nodes = append(nodes, nodesOf(sub)...)
	}
	return nodes
}

// sortedNodes are the different nodes of everything in a group.
func sortedNodes(g *placement.GroupResult) []string {
	nodes := nodesOf(g)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
