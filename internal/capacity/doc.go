// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity decides which nodes an autoscaler is asked for when gangs wait. Autoscalers ignore pods behind a scheduling gate, so a
// gang that waits for capacity brings no node by itself. It decides and does nothing else: no clients, no clock.
//
// A gang is asked for whole, in one of two ways:
//
//   - [KindPlaceholders]: pods of low priority with the shapes of the gang's pods, which any autoscaler adds nodes for. The planner counts
//     them as free, and they are deleted before a gang is released to their nodes.
//   - [KindProvisioningRequest]: an object of Cluster Autoscaler's API, which adds the nodes for all pods or for none.
//
// An autoscaler knows only some labels of the nodes that it adds, as a rule the zone and not the rack. So what is asked for is the part of
// the gang's domain that a new node can have: the pods of a gang that needs one rack are asked for in one zone. Whether the nodes that
// come hold the gang in one rack is the planner's to find.
//
//	llm: Worker, 2 pods x 8 nvidia.com/gpu in one rack       ask 4f0c9e21d7: 2 pods x 8 nvidia.com/gpu, together in one topology.kubernetes.io/zone
//
// A [Planner] bounds what is asked for: so many pods at once, each gang for [Patience] at most, and then not again for a while that
// doubles. Namespaces take turns and share the bound. A gang that was given up is behind those that were not, so gangs that no node
// comes for keep no others from asking. Every fourth gang is that of the namespace that was asked for longest ago, whatever its
// priority:
//
//	bound 4; team-a has a1, a2, a3 and team-b b1, of 2 pods each; no node comes for a1:     asked for are a1 b1, then a2 a3, then a1
//
// What no node shape could hold is never asked for. An ask ends when its gang is placed or gone, or asks for something else: then its
// name, a hash of all that it asks for, is another one.
package capacity
