// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Result is what PlanGraph decided.
type Result struct {
	// Domain is the graph domain; set when the graph has a required level and something is or was placed in it.
	Domain topology.Path
	// Score is the [Score] of the replicas that were placed, [Unscored] when none was.
	Score float64
	// Replicas answers every waiting replica, in order of component name and ordinal.
	Replicas []ReplicaResult
	// Shortfall describes what is missing when the graph domain holds some of the waiting replicas but not all; nil otherwise.
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

// Ruled reports whether rules about other pods, or volumes, bind a gang that is refused.
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

// ReplicaResult is where one replica goes, or why it does not.
type ReplicaResult struct {
	Component string
	Ordinal   int
	// Base: a member of the base gang (docs/placement.md#how-much-begins-together).
	Base bool
	// Head: one of several replicas that their component does not run without, placed together outside of a base gang.
	Head bool
	// Domain holds all its pods: of the required level, or of the narrower preferred one that was reached.
	// The empty path is the whole cluster.
	Domain topology.Path
	// Pods name the planned node of each pod, in the order they were given; empty when refused.
	Pods []PodResult
	// Preempts is what its gang's capacity costs others; nil when the capacity is free. The kube-scheduler preempts on the planned hosts,
	// since pods are pinned to them.
	Preempts *Preemption
	// Refusal is nil when placed.
	Refusal *Refusal
}

// Preemption is who frees capacity for a gang, as the kube-scheduler can be expected to choose on the planned hosts.
type Preemption struct {
	// Gangs that lose a pod, in order of name; Pods counts the pods that are preempted.
	Gangs []string
	Pods  int
}

// PodResult is one pod on its planned node.
type PodResult struct {
	ID, Name, Node string
}

// Shortfall counts the replicas that the graph domain could not hold alongside those it holds.
type Shortfall struct {
	// Domain is the graph domain.
	Domain topology.Path
	// Placed and Wanted count waiting replicas.
	Placed, Wanted int
	// Missing lists how many replicas of each component found no capacity.
	Missing []ComponentShortfall
}

// ComponentShortfall is how many waiting replicas of one component found no capacity.
type ComponentShortfall struct {
	Component string
	Missing   int
}

// GroupResult is what PlanGroup decided for one group.
type GroupResult struct {
	Name string
	// Domain is the domain chosen for the group.
	Domain topology.Path
	// Pods are the group's own pods, Groups what is nested in it, both in the order they were given.
	Pods   []PodResult
	Groups []*GroupResult
}
