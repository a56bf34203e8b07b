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

// Rest is the default time after a replica's creation during which it does not move. It prevents a moved replica from moving again soon.
// See [Limits].
const Rest = time.Hour

// Replica is a running replica that may move.
type Replica struct {
	// Namespace and Graph name the replica's deployment. Component and Ordinal identify the replica in the deployment.
	Namespace, Graph, Component string
	Ordinal                     int
	// Priority is the highest priority of the replica's pods.
	Priority int32
	// Created is the creation time of the replica's youngest pod. A move recreates all pods of a replica.
	Created time.Time
	// Pods are the replica's bound pods.
	Pods []Pod
	// Group describes the replica's pods for the plan of a new place, with IDs that no existing pod has. The pods must stay inside the
	// domain of the replica's graph.
	Group *placement.Group
}

// Name returns the name of the replica in messages: team-a/chat Worker-0.
func (r *Replica) Name() string {
	return fmt.Sprintf("%s/%s %s-%d", r.Namespace, r.Graph, r.Component, r.Ordinal)
}

// Pod is a bound pod of a replica.
type Pod struct {
	ID, Node string
	// GPUs is the number of GPUs that restart with the pod.
	GPUs     int64
	Requests []topology.Request
}

// GPUs returns the number of GPUs that restart when the replica moves.
func (r *Replica) GPUs() (n int64) {
	for i := range r.Pods {
		n += r.Pods[i].GPUs
	}
	return n
}

// Gang is a waiting gang.
type Gang struct {
	placement.Refused
	Priority int32
}

// Limits restrict the moves of one plan.
type Limits struct {
	// MaxGPUs is the maximum number of GPUs that may restart; 0: any number.
	MaxGPUs int64
	// Now is the current time. Replicas that were created within Rest before Now do not move. If Now is zero, this check is skipped. Rest
	// defaults to [Rest].
	Now  time.Time
	Rest time.Duration
	// InOrder: replicas move only to places that are free while they run.
	InOrder bool
}

// Place is the cluster and the topology on which moves are planned. Planning changes the cluster and restores it.
type Place struct {
	Cluster      *topology.Cluster
	Levels       topology.Levels
	NodeSelector map[string]string
}

// SameTopology reports whether replicas with the given levels and node selector can be planned together with the other replicas of the
// place. Replicas with neither levels nor a node selector can be planned in any place, because any domain can hold them.
func (p *Place) SameTopology(levels topology.Levels, nodeSelector map[string]string) bool {
	return len(levels) == 0 && len(nodeSelector) == 0 || slices.Equal(levels, p.Levels) && maps.Equal(nodeSelector, p.NodeSelector)
}

// Cost is the cost of moves. Costs are compared field by field.
type Cost struct {
	GPUs     int64
	Replicas int
	// Priority is the highest priority of the replicas; 0 without replicas.
	Priority int32
}

// Compare orders costs, the lower one first.
func (c Cost) Compare(o Cost) int {
	return cmp.Or(cmp.Compare(c.GPUs, o.GPUs), cmp.Compare(c.Replicas, o.Replicas), cmp.Compare(c.Priority, o.Priority))
}

// CostOf returns the cost of moving a set of replicas.
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

// Move is the move of one replica.
type Move struct {
	Replica *Replica
	// From and To are the domains that hold the replica's pods before and after the move.
	From, To topology.Path
	// Nodes are the nodes of the replica's pods after the move, in the order of Replica.Group.Pods.
	Nodes []string
	// InPlace: the new place is not free while the replica runs.
	InPlace bool
}

// Plan is a list of moves in order. The new place of each move is free once the earlier moves are done, except for moves InPlace.
type Plan struct {
	// Domains are the domains that the moves free.
	Domains []topology.Path
	Cost    Cost
	Moves   []Move
	// Nodes are the nodes of the gang's pods, sorted by name; empty when no gang waits for the domains.
	Nodes []string
}

// inOrder reports whether every replica can move while it runs.
func (p *Plan) inOrder() bool {
	return !slices.ContainsFunc(p.Moves, func(m Move) bool { return m.InPlace })
}

// Result is the result of [Find] and [Free].
type Result struct {
	// Plan is nil when no moves were found.
	Plan *Plan
	// Considered counts the replicas whose priority and age allow a move. Rested counts the replicas that were created within
	// [Limits].Rest.
	Considered, Rested int
	// OverLimit is the lowest number of restarting GPUs among the sets of moves that the search rejected because they exceed
	// [Limits].MaxGPUs; 0 if it rejected none.
	OverLimit int64
	// Cut: the search ended before it had examined every set of moves.
	Cut bool
	// Sets counts the examined sets of moves or, in [Free], the examined domains. Plans counts the plans made on the cluster copy.
	Sets, Plans int

	pushed int
}

// eligible returns the replicas that may move for a gang of the given priority, and the number of replicas that were created too recently.
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

// Find returns the cheapest moves that free a place for a gang. It returns a plan without moves when the gang already has a place.
func Find(p Place, gang Gang, replicas []Replica, limits Limits) Result {
	list, rested := eligible(replicas, gang.Priority, limits)
	f := newFinder(p, gang, list, limits)
	f.result.Considered, f.result.Rested = len(list), rested
	f.search()
	return f.result
}

// nodesOf lists the nodes of all pods in a group.
func nodesOf(g *placement.GroupResult) (nodes []string) {
	for _, pod := range g.Pods {
		nodes = append(nodes, pod.Node)
	}
	for _, sub := range g.Groups {
		nodes = append(nodes, nodesOf(sub)...)
	}
	return nodes
}

// sortedNodes returns the distinct nodes of all pods in a group, sorted by name.
func sortedNodes(g *placement.GroupResult) []string {
	nodes := nodesOf(g)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
