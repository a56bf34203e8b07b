// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gang is what lies between the objects of a graph and the planner: it turns the one into the other's question, and the planner's
// answer into pods to release, capacity to reserve and a scheduling result. It decides and does nothing else: no clients, no caches, no
// clock.
//
//	Observation ──NewRequest──> Request ──placement.PlanGraph──> placement.Result ──Answer──> what is placed, what waits and why
//	                                                                                  └──Releases──> pods with their pins
//
// The scheduler calls it with what it reads from the cluster, package whatif with objects that someone brings.
//
// A graph with one frontend and one worker of two pods, nothing released yet:
//
//	components: front waits(0: 1 pod)  work waits(0: 2 pods, required rack)
//	placed:     front-0 in z1, work-0 in z1/r2
//	releases:   g-front-0 {zone: z1}, g-work-0-0 and g-work-0-1 {zone: z1, rack: r2}, all of the gang g-5f2c…
package gang
