// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gang translates between the objects of a graph and the planner: it turns the objects into the planner's input, and the planner's
// result into pods to release, capacity to reserve and a scheduling result. The package only computes these values. It has no clients, no
// caches and no clock.
//
//	Observation ──NewRequest──> Request ──placement.PlanGraph──> placement.Result ──Answer──> what is placed, what waits and why
//	                                                                                  └──Releases──> pods with their pins
//
// The scheduler passes objects from the cluster to this package, and package whatif passes objects from its own caller.
//
// For example, a graph with one frontend and one worker of two pods, with no released pods yet:
//
//	components: front waits(0: 1 pod)  work waits(0: 2 pods, required rack)
//	placed:     front-0 in z1, work-0 in z1/r2
//	releases:   g-front-0 {zone: z1}, g-work-0-0 and g-work-0-1 {zone: z1, rack: r2}, all of the gang g-5f2c…
package gang
