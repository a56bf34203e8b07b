// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Result is the result of PlanGraph.
type Result struct {
	// Domain is the graph domain; set when the graph has a required level and a replica is or was placed.
	Domain topology.Path
	// Score is the [Score] of the placed replicas, [Unscored] when there are none.
	Score float64
	// Replicas has a result for every waiting replica, sorted by component name and ordinal.
	Replicas []ReplicaResult
	// Shortfall counts the missing replicas when the graph domain holds some of the waiting replicas but not all; nil otherwise.
	Shortfall *Shortfall
}

// Placed reports whether every waiting replica was placed.
func (r *Result) Placed() bool {
	for i := range r.Replicas {
		if r.Replicas[i].Refusal != nil {
			return false
		}
	}
	return true
}

// Ruled reports whether rules about other pods, volumes, or the spread of replicas apply to a refused gang.
func (r *Result) Ruled() bool {
	return slices.ContainsFunc(r.Replicas, func(one ReplicaResult) bool {
		for refusal := one.Refusal; refusal != nil; refusal = refusal.Cause {
			if refusal.Ruled {
				return true
			}
		}
		return false
	})
}

// ReplicaResult is the place of one replica, or the refusal of the replica.
type ReplicaResult struct {
	Component string
	Ordinal   int
	// Base: the replica is a member of the base gang (docs/placement.md#how-much-begins-together).
	Base bool
	// Head: the replica is placed together with other first replicas of its component, outside of a base gang.
	Head bool
	// Domain holds all pods of the replica: a domain of the required level, or of the narrower preferred level that was reached. The empty
	// path is the whole cluster.
	Domain topology.Path
	// Pods has the planned node of each pod, in the given order; empty when refused.
	Pods []PodResult
	// Preempts lists the preemptions that the gang needs; nil when its capacity is free. The kube-scheduler preempts on the planned hosts,
	// because the pods are pinned to them.
	Preempts *Preemption
	// Refusal is nil when the replica is placed.
	Refusal *Refusal
}

// Preemption describes the victims of a gang, as the kube-scheduler is expected to choose them on the planned hosts.
type Preemption struct {
	// Gangs are the gangs that lose a pod, sorted by name; Pods counts the preempted pods.
	Gangs []string
	Pods  int
}

// PodResult is one pod on its planned node.
type PodResult struct {
	ID, Name, Node string
}

// Shortfall counts the waiting replicas that the graph domain cannot hold alongside the placed replicas.
type Shortfall struct {
	// Domain is the graph domain.
	Domain topology.Path
	// Placed and Wanted count waiting replicas.
	Placed, Wanted int
	// Missing lists how many replicas of each component found no capacity.
	Missing []ComponentShortfall
}

// ComponentShortfall counts the waiting replicas of one component that found no capacity.
type ComponentShortfall struct {
	Component string
	Missing   int
}

// GroupResult is the result of PlanGroup for one group.
type GroupResult struct {
	Name string
	// Domain is the chosen domain of the group.
	Domain topology.Path
	// Pods are the group's own pods, Groups its nested groups, both in the given order.
	Pods   []PodResult
	Groups []*GroupResult
}
