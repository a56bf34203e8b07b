// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif plans graphs on a cluster that is a list of objects: it computes the operator's decisions without an operator.
//
// It decides nothing itself. A deployment passes through the same calls as in the operator, in the same order,
//
//	validation ──> render.Resolve ──> ScalingGroups ──> gang.NewRequest ──> placement.PlanGraph
//	                    (missing pods: render.BuildPod and newpod.Admit)        on a topology.Cluster
//
// so the result equals the operator's for the same objects. The package adds the bookkeeping: it gives an identity to scaling groups that
// do not exist, counts existing pods as active members, reports the places of replicas that need no plan, and reserves capacity for the
// pods that the kube-scheduler places, which [Planner] plans last.
//
// Graphs are planned one after the other, and each takes its capacity from the next:
//
//	p := whatif.NewPlanner(world)
//	first, errs := p.Plan(a)    // takes rack-1
//	second, errs := p.Plan(b)   // finds rack-1 taken
//
// [Planner.Cluster] has the free capacity, and [Planner.Asking] the pods for which it is free. [Planner.Begin] and [Planner.Rollback] try
// a plan and drop it. [Planner.Obstacles] lists what has to be freed for a refused replica, and has verified it by a plan.
//
// The package reads no cluster, takes no context and no clock. The cost is that of counting nodes and pods once, and of the plans.
package whatif
