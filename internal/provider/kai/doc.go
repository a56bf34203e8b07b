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
// The root requires every component, and each component requires one replica, or minAvailable replicas if this is set. These required
// replicas are the base gang. Each additional replica joins separately, as a unit. If the graph has no required domain, the root requires
// only one component, because no gang then waits for another gang.
//
// Three properties of KAI shape the objects:
//
//   - KAI extends a PodGroup with the first child that has pods to place, and waits for that child. A PodGroup therefore lists only
//     released replicas: the planner has found capacity for them, so none of them blocks another. Pods without a constraint are in no gang.
//   - KAI evicts a PodGroup with running pods as a unit when the PodGroup stays below its minimum for a grace period. But a graph that lost
//     one replica should keep the other replicas running. Trellis therefore sets a negative period, with which KAI never evicts. KAI before
//     0.17 does not have this field; there, the scheduler's default period must be negative.
//   - KAI does not place a new subgroup near the existing subgroups. The node selector of each pod therefore contains the labels of the
//     graph's domain.
//
// KAI schedules no pods if the preferred level is as broad as the required level. Package constraint drops such a preferred level.
package kai
