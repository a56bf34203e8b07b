// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif plans graphs on a cluster that is nothing but a list of objects: what the operator would decide, without an operator.
//
// It decides nothing itself. A deployment goes through the same calls as in the operator, in the same order:
//
//	validation ──> graph.Resolve ──> ScalingGroups ──> gang.NewRequest ──> placement.PlanGraph
//	                    (pods: graph.BuildPod and newpod.Admit, where they do not exist yet)   on a topology.Cluster
//
// so that its answer is the operator's, as long as it sees the same objects. What it adds is bookkeeping around them: scaling groups that
// no one has created get an identity, pods that exist count as active members, replicas that need no plan are reported where they are, and
// what the kube-scheduler places by itself ([Planner] puts such pods last) takes capacity too.
//
// Graphs are planned one after the other; what one of them takes is gone for the next:
//
//	p := whatif.NewPlanner(world)
//	first, errs := p.Plan(a)    // takes rack-1
//	second, errs := p.Plan(b)   // finds rack-1 taken
//
// [Planner.Cluster] has the free capacity, and [Planner.Asking] the pods that it is free for. [Planner.Begin] and [Planner.Rollback] try a
// plan and drop it. [Planner.Obstacles] lists what has to be freed for a refused replica, and has tried it.
//
// Nothing here reaches a cluster, takes a context or looks at the time. The cost is that of counting nodes and pods once, and of the plans.
package whatif
