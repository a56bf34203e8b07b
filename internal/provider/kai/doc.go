// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kai writes what KAI Scheduler (0.15 or newer) reads: a Topology for each ClusterTopology, a PodGroup for each deployment, and on
// each pod which leaf of it the pod belongs to.
//
//	deployment chat, packDomain zone             PodGroup chat: one zone, minSubGroup 2
//	  Decode, 2 replicas of 4 pods, rack     ->    chat-decode-all: minSubGroup 1
//	                                                 chat-decode-0: minMember 4, one rack
//	                                                 chat-decode-1: minMember 4, one rack
//	  Frontend, 3 replicas                         chat-frontend-all: minMember 1
//
// The root asks for every component, each component for one replica, or for its minAvailable: that is the base gang. Further replicas join
// one by one, each whole. Without a domain required for the graph the root asks for any one component, since then no gang waits for
// another.
//
// Three things about KAI shape what is written:
//
//   - A PodGroup grows by its first child that has pods to place, and waits for that one. So only replicas that were released are listed:
//     our planner has found capacity for them, and one without capacity never stands before another. Pods free of any constraint are in no
//     gang.
//   - A PodGroup with running pods that falls below its minimum is evicted as a unit after a grace period. A serving graph that lost one
//     replica should keep the rest, so the period is negative, which means never. KAI before 0.17 does not know the field; there the
//     scheduler's own default has to be set so.
//   - A new subgroup is not drawn to where the graph already is. Pods carry the label path of the graph's domain as their node selector.
//
// A preferred level that is as broad as the required one would keep KAI from scheduling at all; package pack drops it.
package kai
