// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif plans graphs on a cluster that is a list of objects: it computes the operator's decisions without an operator.
//
// The package makes no decisions of its own. A deployment passes through the same calls as in the operator, in the same order,
//
//	validation ──> render.Resolve ──> ScalingGroups ──> gang.NewRequest ──> placement.PlanGraph
//	                    (missing pods: render.BuildPod and newpod.Admit)        on a topology.Cluster
//
// so the result equals the operator's result for the same objects. The package adds the bookkeeping: it gives UIDs to scaling groups that
// do not exist yet, makes existing pods members of these groups, and reports the places of replicas that need no plan. It also reserves
// capacity for the pods that the kube-scheduler places, which [Planner] plans last.
//
// Graphs are planned one after the other, and each plan reduces the capacity for the next plan:
//
//	p := whatif.NewPlanner(world)
//	first, errs := p.Plan(a)    // takes rack-1
//	second, errs := p.Plan(b)   // finds rack-1 taken
//
// [Planner.Cluster] contains the free capacity, and [Planner.Asking] returns the pod shapes for which to query it. To try a plan and drop
// it, call [Planner.Begin] and [Planner.Rollback]. [Planner.Obstacles] lists the hosts to free for a refused replica. A plan has verified
// this list.
//
// The package reads no cluster, and needs neither a context nor a clock. It reads the nodes and pods once; all other cost is in the plans.
package whatif
