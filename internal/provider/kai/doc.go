// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kai renders the objects that KAI Scheduler (0.15 or newer) reads: a Topology for each ClusterTopology, a PodGroup for each
// deployment, and on each pod the leaf of the PodGroup to which it belongs.
//
//	deployment chat, packDomain zone             PodGroup chat: one zone, minSubGroup 2
//	  Decode, 2 replicas of 4 pods, rack     ->    chat-decode-all: minSubGroup 1
//	                                                 chat-decode-0: minMember 4, one rack
//	                                                 chat-decode-1: minMember 4, one rack
//	  Frontend, 3 replicas                         chat-frontend-all: minMember 1
//
// The root requires every component, and each component one replica, or its minAvailable: that is the base gang. Further
// replicas join one by one, each as a unit. Without a required domain of the graph the root requires only one component, because
// then no gang waits for another.
//
// Three properties of KAI shape the objects:
//
//   - A PodGroup grows by its first child with pods to place, and waits for that child. So it lists only released replicas: the planner
//     has found capacity for them, so none blocks another. Pods without a constraint are in no gang.
//   - KAI evicts a PodGroup with running pods as a unit when it stays below its minimum for a grace period. A serving graph that lost
//     one replica should keep the others, so the period is negative, which means never. KAI before 0.17 does not have the field; there
//     the scheduler's default has to be negative.
//   - KAI does not place a new subgroup near the existing ones. Pods have the label path of the graph's domain as their node selector.
//
// KAI would not schedule at all with a preferred level as broad as the required one; package constraint drops such a level.
package kai
